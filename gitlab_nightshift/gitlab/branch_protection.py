"""Which protected name or wildcard a branch falls under."""

import re
from collections.abc import Iterable


def find_protecting_pattern(branch: str, patterns: Iterable[str]) -> str | None:
    """The first protected name or wildcard that matches; ``*`` matches slashes too (GitLab)."""
    for pattern in patterns:
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), branch, re.DOTALL):
            return pattern
    return None
