"""Which settings make which tool looser, and in which direction: ``tool_rules.toml`` lists them."""

import re
from functools import cache

from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.directions import Worse, parse_direction

TYPES, COVERAGE, CI, SKIPPED = "types-loosened", "coverage-loosened", "ci-loosened", "test-skipped"


@cache
def _compile_rules() -> list[tuple[str, re.Pattern[str], str]]:
    table = RuleTable(__file__)
    rows = [row for rows in table.entries.values() for row in rows]
    return [(flag, table.compile(f"(?:.*:)?{pattern}"), worse) for flag, pattern, worse in rows]


def find_rule(key: str) -> tuple[str, Worse] | None:
    """The flag and the direction for a setting; None for one that loosens nothing."""
    for flag, pattern, worse in _compile_rules():
        if pattern.match(key):
            return (flag, parse_direction(worse)) if worse else None
    return None
