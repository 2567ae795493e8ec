"""Usage: sums, limits and texts."""

import pytest

from gitlab_nightshift.records.usage import (
    UNKNOWN_USAGE,
    Bound,
    SpendingLimit,
    Usage,
    add_usage,
    format_cost,
    format_usd,
    unwrap_command,
)
from tests.support.tables import each


def test_a_sum_with_an_unknown_is_unknown() -> None:
    assert add_usage([]) == Usage()
    assert add_usage([Usage(0.5, 10), Usage(0.25, 5, 0.1, 2)]) == Usage(0.75, 15, 0.1, 2)
    assert add_usage([Usage(0.5, 10), Usage(None, 5)]) == Usage(None, 15)
    assert add_usage([Usage(0.5, 10), UNKNOWN_USAGE]) == UNKNOWN_USAGE


def test_unknown_usage_counts_as_zero_for_limits() -> None:
    used = [Usage(0.75, None), Usage(None, 40)]
    assert SpendingLimit(1.0, 100).subtract(used) == SpendingLimit(0.25, 60)
    assert SpendingLimit(0.5, 30).subtract(used) == SpendingLimit(0.0, 0)
    assert SpendingLimit().subtract(used) == SpendingLimit()


@each(
    ("usd", "bound", "text"),
    [
        (None, "at least", "not known"),
        (0.0, "", "$0.00"),
        (0.004, "", "$0.0040"),
        (1.234, "at least", "at least $1.23"),
        (10.0, "at most", "at most $10.00"),
    ],
)
def test_usd_are_formatted_with_their_bound(usd: float | None, bound: Bound, text: str) -> None:
    assert format_usd(usd, bound) == text


@each(
    ("usd", "tokens", "text"),
    [
        (None, None, "cost not known"),
        (None, 0, "cost not known, 0 tokens"),
        (None, 1500, "cost not known, 2k tokens"),
        (0.0, 0, "nothing spent"),
        (1.234, 999, "$1.23, 999 tokens"),
        (1.5, None, "$1.50"),
        (10.0, 312_400, "$10.00, 312k tokens"),
    ],
)
def test_cost_and_tokens_are_formatted(usd: float | None, tokens: int | None, text: str) -> None:
    assert format_cost(Usage(usd, tokens)) == text


def test_assumed_cost_is_formatted_as_a_maximum() -> None:
    assumed = "(${} of it assumed: the end of an answer was not seen)"
    assert (
        format_cost(Usage(1.5, 1500, 0.48, 900))
        == f"at most $1.50, 2k tokens {assumed.format('0.48')}"
    )
    unknown = format_cost(Usage(None, 1500, 0.0, 900))
    assert unknown.startswith("cost not known, at most 2k tokens (900 tokens of it assumed")


@pytest.mark.parametrize(
    ("command", "unwrapped"),
    [
        (["bash", "-lc", "make test"], "make test"),
        ("/bin/sh -c 'make test'", "make test"),
        ("/usr/bin/zsh -lc ls", "ls"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        (["grep", "-c", "a word"], "grep -c 'a word'"),
        ("sh -x -c ls", "sh -x -c ls"),
        ("sh -c 'open", "sh -c 'open"),
    ],
)
def test_only_a_shell_around_a_command_is_removed(command: object, unwrapped: str) -> None:
    assert unwrap_command(command) == unwrapped
