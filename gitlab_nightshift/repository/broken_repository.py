"""What git says where it cannot work in a repository at all, whatever it was asked."""

import re
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.lazy_patterns import compile_lazily

_BROKEN = compile_lazily(
    r"^fatal: (bad [a-z ]*config.*"
    r"|exceeded maximum include depth.*(?:\n\t.*)?"
    r"|index file corrupt|.*index file (?:open failed|smaller than expected).*"
    r"|detected dubious ownership.*)",
    re.MULTILINE,
)
_NEWER = compile_lazily(
    r"^(?:fatal|warning): ((?:unknown repository extension|repo version is).*found:(?:\n\t.*)+"
    r"|expected git repo version.*)",
    re.MULTILINE | re.IGNORECASE,
)
_DAMAGED = compile_lazily(
    r"""^(?:error|fatal):[ ](
        (?P<head>bad[ ]object[ ]HEAD)                                   # fatal: bad object HEAD
      | (?P<tree>bad[ ]tree[ ]object[ ].*|not[ ]a[ ]tree[ ]object)      # fatal: not a tree object
        # error: Could not read 0123456789012345678901234567890123456789
      | (?P<lost>Could[ ]not[ ]read[ ][0-9a-f]{40,}|unable[ ]to[ ]read[ ](tree[ ])?[0-9a-f]{40,})
        # error: object file .git/objects/ab/cd is empty
      | (?P<spoilt>object[ ]file[ ].*[ ]is[ ]empty|unable[ ]to[ ]unpack[ ].*)
      | (?P<stored>(loose|packed)[ ]object[ ].*|packfile[ ].*)          # error: packfile a is bad
      | (?P<asked>git[ ]cat-file[ ].*:[ ]bad[ ]file)          # fatal: git cat-file HEAD:a: bad file
    )""",
    re.MULTILINE | re.VERBOSE,
)


def refuse_broken_repository(stderr: bytes) -> None:
    """Raise ``E_CONFIG`` where a git command failed for its configuration or its index, or because
    the repository is kept in a form that this git does not know (reftable)."""
    text = stderr.decode("utf-8", "replace")
    if found := _NEWER.search(text):
        why = " ".join(found[1].split())
        raise build_config_error(f"this repository takes a newer git: {why}: install one")
    if found := _BROKEN.search(text):
        why = " ".join(found[1].split())
        raise build_config_error(f"git cannot work here: {why}: mend that file, or clone anew")


def describe_damage(stderr: bytes) -> str:
    """What the user is told where git could not read an object; "" for any other failure."""
    found = _DAMAGED.search(stderr.decode("utf-8", "replace"))
    return render_damage(found[1]) if found else ""


def render_damage(what: str) -> str:
    """The same for what is known otherwise."""
    return f"the git repository is damaged or lacks a part ({what}): clone it anew"


def refuse_line_break(checkout: Path) -> None:
    """Raise ``E_CONFIG`` for a path that cannot be a line of what git says."""
    if "\n" in str(checkout):
        raise build_config_error(
            f"{str(checkout)!r}: a line break is in the path: move the checkout"
        )
