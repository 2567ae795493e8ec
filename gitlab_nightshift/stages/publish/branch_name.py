"""Names of branches: safe for git and GitLab, whatever an agent suggested."""

import re
import unicodedata
from collections.abc import Iterator

LONGEST_SLUG = 60
MOST_SUFFIXES = 20
EXTREMES = ("a", f"{'improve-it-' * LONGEST_SLUG}"[: LONGEST_SLUG - 1] + f"t-{MOST_SUFFIXES}")
"""The shortest name that can follow ``branch_prefix``, and one of the greatest length."""


def build_slug(*suggestions: str) -> str:
    """The first suggestion that is not empty when reduced to ``[a-z0-9-]``, at most 60
    characters."""
    for text in suggestions:
        letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
        words = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")
        if len(words) > LONGEST_SLUG:
            head, dash, _ = words[: LONGEST_SLUG + 1].rpartition("-")
            words = head if dash else words[:LONGEST_SLUG]
        if words:
            return words
    return "change"


def list_branch_names(prefix: str, name: str) -> Iterator[str]:
    """``<prefix><name>``, then with ``-2``, ``-3`` …"""
    yield f"{prefix}{name}"
    for number in range(2, MOST_SUFFIXES + 1):
        yield f"{prefix}{name}-{number}"
