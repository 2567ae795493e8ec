"""The budget of a later gateway, and the usage of several."""

from gitlab_nightshift.records.usage import SpendingLimit, Usage, add_usage
from gitlab_nightshift.run.supervisor.stage_calls import (
    append_usages,
    compute_total_usage,
    limit_budget,
)
from tests.support.tables import each

CONFIG = {"limit": {"usd": 5.0, "tokens": 1000}, "models": ["m"]}


def test_known_usage_counts_beside_unknown_usage() -> None:
    used = (Usage(3.0, 100, 1.0, 50), Usage(None, 7))
    left = {"usd": 2.0, "tokens": 893}
    assert limit_budget(CONFIG, used) == {**CONFIG, "limit": left}
    from_sum = SpendingLimit(5.0, 1000).subtract([add_usage(used)])
    assert from_sum.usd == 5.0, "a sum alone would give the whole budget again"


def test_a_used_up_budget_is_not_negative() -> None:
    used = (Usage(9.0, 2000),)
    assert limit_budget(CONFIG, used) == {**CONFIG, "limit": {"usd": 0.0, "tokens": 0}}
    assert limit_budget(None, used) is None
    assert limit_budget(CONFIG, None) == CONFIG


@each(
    ("before", "used", "all_used", "total"),
    [
        (None, None, None, None),
        (None, (), (), Usage()),
        ((), None, (), Usage()),
        ((Usage(1.0, 2),), None, (Usage(1.0, 2),), Usage(1.0, 2)),
        ((Usage(1.0, 2),), (Usage(0.5, 1),), (Usage(1.0, 2), Usage(0.5, 1)), Usage(1.5, 3)),
    ],
)
def test_usages_of_two_gateways_are_joined_and_summed(
    before: tuple[Usage, ...] | None,
    used: tuple[Usage, ...] | None,
    all_used: tuple[Usage, ...] | None,
    total: Usage | None,
) -> None:
    assert append_usages(before, used) == all_used
    assert compute_total_usage(all_used) == total
