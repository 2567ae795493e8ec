"""Flags that look at the settings of tools and at CI."""

from collections.abc import Iterator
from functools import lru_cache

from gitlab_nightshift.verdict.change import Change, Context, Found, Rule
from gitlab_nightshift.verdict.tooling.ci import loosened_pipelines
from gitlab_nightshift.verdict.tooling.loosened import Flagged, loosened_settings


def loosened(flag: str, also: Rule | None = None) -> Rule:
    """The rule that tells what a change loosens under the name of one flag.

    ``also`` is another rule of that flag; a file that it names is not named twice.
    """

    def rule(change: Change, context: Context) -> Iterator[Found]:
        first = list(also(change, context)) if also else []
        yield from first
        named = {found.file for found in first}
        more = (found for name, found in _all(change) if name == flag)
        yield from (found for found in more if found.file not in named)

    return rule


@lru_cache(maxsize=1)
def _all(change: Change) -> tuple[Flagged, ...]:
    return (*loosened_settings(change.files), *loosened_pipelines(change.files))
