"""Settings in files that are programs (``eslint.config.js``, ``build.sbt``, Gradle, ``pom.xml``).

They are not run, and not understood as a whole: the patterns of ``line_settings.toml`` find the
settings that matter.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.tooling.directions import Worse, parse_direction
from gitlab_nightshift.verdict.tooling.tool_facts import Fact

_HEAD = 4000
_COMMENTS = compile_lazily(r"^\s*(//|#(?!!)).*$|<!--.*?-->|(?<=\s)//.*$", re.MULTILINE)
_QUOTED = compile_lazily(r"""['"`]([^'"`\n]*)['"`]|(/(?:\\.|[^/\n])+/)""")


@dataclass(frozen=True)
class _LineSetting:
    flag: str
    name: str
    worse: Worse
    pattern: re.Pattern[str]
    how: frozenset[str]


def read_line_facts(file: str, text: str) -> dict[str, tuple[Fact, str, Worse]]:
    """The settings of a file, each with its flag and direction; none for a file of another kind."""
    found: dict[str, tuple[Fact, str, Worse]] = {}
    settings = _find_settings(file)
    bare = "" if all("raw" in each.how for each in settings) else _COMMENTS.sub("", text)
    for n, setting in enumerate(settings):
        for name, value in _find_values(setting, text[:_HEAD] if "raw" in setting.how else bare):
            key = f"{file}#{n}.{name}"
            found[key] = (Fact(key, name, value, file), setting.flag, setting.worse)
    return found


def marks_itself(file: str) -> bool:
    """True for a source file, or a compiler's recipe: its settings are about itself only."""
    settings = _find_settings(file)
    return bool(settings) and all({"raw", "own"} & each.how for each in settings)


def _find_settings(file: str) -> tuple[_LineSetting, ...]:
    return next((settings for path, settings in _read_files() if path.search(file)), ())


@cache
def _read_files() -> list[tuple[re.Pattern[str], tuple[_LineSetting, ...]]]:
    table = RuleTable(__file__)

    def build_setting(flag: str, name: str, worse: str, pattern: str, how: str) -> _LineSetting:
        compiled = table.compile(pattern, re.MULTILINE)
        return _LineSetting(flag, name, parse_direction(worse), compiled, frozenset(how.split()))

    return [
        (table.compile(file["path"]), tuple(build_setting(*row) for row in file["settings"]))
        for file in table.entries["file"]
    ]


def _find_values(setting: _LineSetting, text: str) -> Iterator[tuple[str, object]]:
    matches = list(setting.pattern.finditer(text))
    if "many" in setting.how:
        texts = [group for match in matches for group in match.groups() if group]
        if "inside" in setting.how:
            texts = [a or b for each in texts for a, b in _QUOTED.findall(each)]
        if texts:
            yield setting.name, [text.strip() for text in texts]
        return
    for match in matches:
        groups = [group for group in match.groups() if group is not None]
        if groups:
            yield (groups[0] if len(groups) > 1 else setting.name), groups[-1]
