"""A patch with a secret in it: refused, since files cannot be redacted."""

from collections.abc import Collection

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.redaction.redactor import Redactor

SHORTEST_LEAK = 12
"""Characters. Shorter values (``postgres``) are too often a word of the language."""


_OF_THE_BASE = (b" ", b"-", b"@@ ")
"""Lines that only repeat what is there already."""


def refuse_secrets(patch: bytes, secrets: Collection[str]) -> None:
    """Raise ``E_POLICY_DENY`` where added lines, or what is no part of a change, hold a secret, in
    any form of the redactor."""
    lines = patch.split(b"\n")
    added = [line[1:] for line in lines if line.startswith(b"+")]
    others = [line for line in lines if not line.startswith((b"+", *_OF_THE_BASE))]
    if holds_secret(b"\n".join((*added, *others)), secrets):
        raise NightshiftError(
            Code.POLICY_DENY, "not published: the change holds the value of a secret variable"
        )


def holds_secret(data: bytes, secrets: Collection[str]) -> bool:
    """Whether data that cannot be redacted holds one of the values that are long enough to tell."""
    return Redactor(tuple(each for each in secrets if len(each) >= SHORTEST_LEAK)).holds_value(data)
