"""Flags that look at the settings of tools and at CI."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.flags.change_kinds import touches_tests, touches_tools
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, Rule, RuleViolation

if TYPE_CHECKING:
    from gitlab_nightshift.verdict.tooling.looser_settings import Flagged


def build_loosened_rule(flag: str, also: Rule | None = None) -> Rule:
    """The rule that reports what a change loosens under the name of one flag.

    ``also`` is another rule of that flag, about tests; a file that it names is not named twice.
    """

    def find_violations(change: Changeset, context: Context) -> Iterator[RuleViolation]:
        first = list(also(change, context)) if also and touches_tests(change) else []
        yield from first
        named = {found.file for found in first}
        more = (found for name, found in _list_loosened(change) if name == flag)
        yield from (found for found in more if found.file not in named)

    return find_violations


@lru_cache(maxsize=1)
def _list_loosened(change: Changeset) -> "tuple[Flagged, ...]":
    if not touches_tools(change):
        return ()
    from gitlab_nightshift.verdict.tooling.ci_checks import find_loosened_pipelines
    from gitlab_nightshift.verdict.tooling.looser_settings import find_loosened_settings

    return (*find_loosened_settings(change.files), *find_loosened_pipelines(change))


def _find_skipped_tests(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    from gitlab_nightshift.verdict.flags.skipped_tests import find_skipped_tests

    return find_skipped_tests(change, context)


def _find_loosened_tests(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    from gitlab_nightshift.verdict.flags.weaker_tests import find_loosened_tests

    return find_loosened_tests(change, context)


find_skipped = build_loosened_rule("test-skipped", _find_skipped_tests)
find_loosened = build_loosened_rule("test-loosened", _find_loosened_tests)
find_loosened_linters = build_loosened_rule("linter-loosened")
find_loosened_types = build_loosened_rule("types-loosened")
find_loosened_coverage = build_loosened_rule("coverage-loosened")
find_loosened_ci = build_loosened_rule("ci-loosened")
