"""What git says where it cannot work in a repository at all, whatever it was asked."""

import re
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.lazy_patterns import compile_lazily

_BROKEN = compile_lazily(
    r"^fatal: (bad [a-z ]*config.*"
    r"|exceeded maximum include depth.*(?:\n\t.*)?"
    r"|index file corrupt|.*index file (?:open failed|smaller than expected).*"
    r"|detected dubious ownership.*|bad object HEAD)",
    re.MULTILINE,
)


def refuse_broken_repository(stderr: bytes) -> None:
    """Raise ``E_CONFIG`` where a git command failed for its configuration or its index."""
    if found := _BROKEN.search(stderr.decode("utf-8", "replace")):
        why = " ".join(found[1].split())
        raise build_config_error(f"git cannot work here: {why}: mend that file, or clone anew")


def refuse_line_break(checkout: Path) -> None:
    """Raise ``E_CONFIG`` for a path that cannot be a line of what git says."""
    if "\n" in str(checkout):
        raise build_config_error(
            f"{str(checkout)!r}: a line break is in the path: move the checkout"
        )
