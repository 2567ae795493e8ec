"""Which of a job's values are secrets that can be told from ordinary words."""

from collections.abc import Iterable

from gitlab_nightshift.redaction.spelling import (
    SpellingNeedle,
    list_raw_spellings,
    list_spellings,
    to_bytes,
)

SHORTEST_VALUE = 6
SHORTEST_NUMBER = 8
SHORTEST_LINE = 8
_WORDS = frozenset(
    """
    access account admin administrator default deploy deployer develop development disabled docker
    enabled example gitlab github guest localhost mariadb master mongodb mysql nobody oauth2
    password passwd postgres postgresql private production public readonly redis registry release
    required runner secret secrets staging string testing username
    """.split()  # one per line would fill a page
)


def select_usable(values: Iterable[str]) -> list[str]:
    """The values that are redacted wherever they occur, the longest first.

    Left out are values of fewer than 6 characters, numbers of fewer than 8 digits, and single words
    that any log may hold (``postgres``): to replace those would spoil the text, and its gaps would
    show what the value is. GitLab itself masks from 8 characters on.
    """
    known = {value.strip() for value in values}
    return sorted((each for each in known if _is_telling(each)), key=len, reverse=True)


def _is_telling(value: str) -> bool:
    if value.isdecimal():
        return len(value) >= SHORTEST_NUMBER
    return len(value) >= SHORTEST_VALUE and value.casefold() not in _WORDS


def build_needles(values: Iterable[str]) -> list[SpellingNeedle]:
    """All forms of all usable values."""
    return [each for value in select_usable(values) for each in list_spellings(value)]


def build_line_needles(values: Iterable[str]) -> list[SpellingNeedle]:
    """The lines of 8 characters or more of values that have several, as they are in a text."""
    lines = dict.fromkeys(line for value in select_usable(values) for line in _split_lines(value))
    return [each for line in lines for each in list_raw_spellings(line)]


def _split_lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    return [
        line
        for line in lines
        if len(line) >= SHORTEST_LINE and _is_telling(line) and not line.startswith("-----")
    ]


def measure_longest_form(values: Iterable[str]) -> int:
    """Bytes that the longest value may take, each character escaped."""
    return 13 * max((len(to_bytes(value)) for value in select_usable(values)), default=0) + 64
