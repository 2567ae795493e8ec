"""Flags that look at the settings of tools and at CI."""

from collections.abc import Iterator
from functools import lru_cache

from gitlab_nightshift.verdict.flags.skipped_tests import find_skipped_tests
from gitlab_nightshift.verdict.flags.weaker_tests import find_loosened_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, Context, Rule, RuleViolation
from gitlab_nightshift.verdict.tooling.ci_checks import find_loosened_pipelines
from gitlab_nightshift.verdict.tooling.looser_settings import Flagged, find_loosened_settings


def build_loosened_rule(flag: str, also: Rule | None = None) -> Rule:
    """The rule that reports what a change loosens under the name of one flag.

    ``also`` is another rule of that flag; a file that it names is not named twice.
    """

    def find_violations(change: Changeset, context: Context) -> Iterator[RuleViolation]:
        first = list(also(change, context)) if also else []
        yield from first
        named = {found.file for found in first}
        more = (found for name, found in _list_loosened(change) if name == flag)
        yield from (found for found in more if found.file not in named)

    return find_violations


@lru_cache(maxsize=1)
def _list_loosened(change: Changeset) -> tuple[Flagged, ...]:
    return (*find_loosened_settings(change.files), *find_loosened_pipelines(change))


find_skipped = build_loosened_rule("test-skipped", find_skipped_tests)
find_loosened = build_loosened_rule("test-loosened", find_loosened_tests)
find_loosened_linters = build_loosened_rule("linter-loosened")
find_loosened_types = build_loosened_rule("types-loosened")
find_loosened_coverage = build_loosened_rule("coverage-loosened")
find_loosened_ci = build_loosened_rule("ci-loosened")
