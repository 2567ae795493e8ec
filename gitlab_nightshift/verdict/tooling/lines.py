"""Settings in files that are programs (``eslint.config.js``, ``build.sbt``, Gradle, ``pom.xml``).

They are not run, and not understood as a whole: patterns find the settings that matter.
"""

import re
from collections.abc import Iterator
from functools import cache

from gitlab_nightshift.verdict.tooling.directions import Worse
from gitlab_nightshift.verdict.tooling.facts import Fact
from gitlab_nightshift.verdict.tooling.line_patterns import PATTERNS
from gitlab_nightshift.verdict.tooling.pattern import Pattern

_HEAD = 4000
_COMMENTS = re.compile(r"^\s*(//|#(?!!)).*$|<!--.*?-->|(?<=\s)//.*$", re.MULTILINE)
_QUOTED = re.compile(r"""['"`]([^'"`\n]*)['"`]|(/(?:\\.|[^/\n])+/)""")


def line_facts(file: str, text: str) -> dict[str, tuple[Fact, str, Worse]]:
    """The settings of a file, each with its flag and direction; none for a file of another kind."""
    found: dict[str, tuple[Fact, str, Worse]] = {}
    patterns = _patterns(file)
    bare = "" if all(each.raw for each in patterns) else _COMMENTS.sub("", text)
    for n, pattern in enumerate(patterns):
        for name, value in _values(pattern, text[:_HEAD] if pattern.raw else bare):
            key = f"{file}#{n}.{name}"
            found[key] = (Fact(key, name, value, file), pattern.flag, pattern.worse)
    return found


def marks_itself(file: str) -> bool:
    """True for a source file, which holds settings about itself only."""
    patterns = _patterns(file)
    return bool(patterns) and all(each.raw for each in patterns)


def _patterns(file: str) -> tuple[Pattern, ...]:
    return next((patterns for path, patterns in _compiled() if path.search(file)), ())


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], tuple[Pattern, ...]], ...]:
    return tuple((re.compile(path), patterns) for path, patterns in PATTERNS)


def _values(pattern: Pattern, text: str) -> Iterator[tuple[str, object]]:
    matches = list(re.finditer(pattern.text, text, re.MULTILINE))
    if pattern.many:
        texts = [group for match in matches for group in match.groups() if group]
        if pattern.inside:
            texts = [a or b for each in texts for a, b in _QUOTED.findall(each)]
        if texts:
            yield pattern.name, [text.strip() for text in texts]
        return
    for match in matches:
        groups = [group for group in match.groups() if group is not None]
        if groups:
            yield (groups[0] if len(groups) > 1 else pattern.name), groups[-1]
