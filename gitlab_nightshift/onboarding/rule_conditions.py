"""The conditions of ``rules: if``, as far as they are known before a pipeline is.

Three answers: True, False, and None where a variable's value is not known here. The language is
GitLab's (``lib/gitlab/ci/pipeline/expression``): ``== != =~ !~``, ``&&`` before ``||``, brackets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<variable>\$\w+|\$\{\w+\})               # $CI_PIPELINE_SOURCE
  | (?P<text>"[^"]*"|'[^']*')                   # "schedule"
  | (?P<pattern>/(?:\\.|[^/\\])+/[ismU]*)       # /^v\d/i
  | (?P<null>null\b)                            # null
  | (?P<sign>==|!=|=~|!~|&&|\|\||\(|\))         # =~
    )""",
    re.VERBOSE,
)
MOST_TOKENS = 500
Variables = Mapping[str, str | None]
"""Values by name; None for one that is certainly not set. What is missing is not known."""


class _Unreadable(Exception):
    """The condition is none that is understood here."""


@dataclass(frozen=True)
class _Value:
    """A value: ``known`` is False for a variable that is not known."""

    text: str | None
    known: bool = True
    is_pattern: bool = False

    @property
    def truth(self) -> bool | None:
        """A variable alone is true where it is set and not empty."""
        return bool(self.text) if self.known else None


def evaluate_condition(condition: object, variables: Variables) -> bool | None:
    """Whether the condition holds; None where that is not known, or it cannot be read."""
    try:
        reader = _ConditionReader(_split_tokens(str(condition)), variables)
        found = reader.read_any()
    except (_Unreadable, RecursionError):
        return None
    return found if reader.ended else None


def _split_tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) > MOST_TOKENS:
            raise _Unreadable
        tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        at = found.end()
    return tokens


class _ConditionReader:
    """Reads tokens from the left; each method the part of the grammar that it is named after."""

    def __init__(self, tokens: list[tuple[str, str]], variables: Variables) -> None:
        self._tokens, self._variables, self._at = tokens, variables, 0

    @property
    def ended(self) -> bool:
        return self._at == len(self._tokens)

    def read_any(self) -> bool | None:
        """``a || b``"""
        found = self._read_all()
        while self._take_sign("||"):
            found = _join_either(found, self._read_all())
        return found

    def _read_all(self) -> bool | None:
        found = self._read_comparison()
        while self._take_sign("&&"):
            found = _join_both(found, self._read_comparison())
        return found

    def _read_comparison(self) -> bool | None:
        if self._take_sign("("):
            found = self.read_any()
            if not self._take_sign(")"):
                raise _Unreadable
            return found
        left = self._read_value()
        for sign in ("==", "!=", "=~", "!~"):
            if self._take_sign(sign):
                return _compare(left, sign, self._read_value())
        return left.truth

    def _read_value(self) -> _Value:
        if self.ended:
            raise _Unreadable
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "variable":
            name = text.strip("${}")
            return _Value(self._variables.get(name), name in self._variables)
        if kind == "text":
            return _Value(text[1:-1])
        if kind == "null":
            return _Value(None)
        if kind == "pattern":
            return _Value(text, is_pattern=True)
        raise _Unreadable

    def _take_sign(self, sign: str) -> bool:
        there = not self.ended and self._tokens[self._at] == ("sign", sign)
        self._at += there
        return there


def _compare(left: _Value, sign: str, right: _Value) -> bool | None:
    if not (left.known and right.known):
        return None
    if sign in ("==", "!="):
        return (left.text == right.text) == (sign == "==")
    if not right.is_pattern:
        return None
    body, _, flags = str(right.text)[1:].rpartition("/")
    try:
        found = re.search(body, left.text or "", re.IGNORECASE if "i" in flags else 0)
    except re.error:
        return None
    return (found is not None) == (sign == "=~")


def _join_either(left: bool | None, right: bool | None) -> bool | None:
    return True if left or right else None if left is None or right is None else False


def _join_both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True
