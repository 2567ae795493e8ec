"""Tests that are given more patience: retries, longer limits, sleeps."""

import re
from collections import Counter
from collections.abc import Iterator

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.verdict.flags.matched_tests import TestVersion, match_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.nodes import list_tokens

_TABLE = RuleTable(__file__)

_PATIENCE = _TABLE.get_pattern("patience")
_SLEEP = _TABLE.get_pattern("sleep")


def find_added_patience(change: Changeset) -> Iterator[RuleViolation]:
    """Retries and longer waits that were added to tests that were there."""
    for old, new in match_tests(change).changed:
        was, now = _count_waits(old), _count_waits(new)
        more = list(now - was) or _find_longer_waits(old, new, _PATIENCE)
        slower = _find_longer_waits(old, new, _SLEEP)
        for word in (more or slower)[:1]:
            detail = f"{new.name} is given more patience: {word}."
            # A sleep hides a race, or is the test; so does a limit that the code is given.
            asked = not more or _is_option_of_code(word, new)
            level: Level | None = "warn" if asked else None
            yield RuleViolation(new.file.path, new.test.line, detail, level, certain=False)
    for file in change.files:
        if not any(new.file is file for _, new in match_tests(change).pairs):
            continue
        gone = " ".join(each.text for each in file.deleted)
        for added in file.added:
            found = re.search(
                r"\b(jest\.retryTimes|vi\.setConfig\(\{\s*retry|this\.retries|jest\.setTimeout"
                r"|retries:)",
                added.text,
            )
            if found and found[1] not in gone and not _inside_test(change, file.path, added.number):
                yield RuleViolation(
                    file.path, added.number, f"Tests are given more patience: {found[1]}."
                )


def _is_option_of_code(word: str, version: TestVersion) -> bool:
    """``fetch(url, {timeout: 400})``: no option of the test, nor of a wait in it."""
    body = list_tokens(version.test.body) if version.test.body else ()
    if word not in ("timeout", "retry", "retries") or _WAITS.search(" ".join(body)):
        return False
    here = [at for at, token in enumerate(body) if token == word]
    given = all(body[at + 1 : at + 2] in ((":",), ("=",)) for at in here)
    return bool(here) and given and len(here) == version.words.count(word)


_WAITS = _TABLE.get_pattern("waits")


def _inside_test(change: Changeset, path: str, number: int) -> bool:
    return any(
        new.file.path == path and new.test.line <= number <= new.test.end
        for _, new in match_tests(change).changed
    )


def _count_waits(version: TestVersion) -> Counter[str]:
    said = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`", '""', " ".join(version.words))
    found = Counter(match[1] for match in _PATIENCE.finditer(said))
    return found + Counter("timeout" for _ in _list_limits(version))


def _find_longer_waits(old: TestVersion, new: TestVersion, waits: re.Pattern[str]) -> list[str]:
    """The words for a wait or for retries whose number grew; of sleeps, also those that came."""
    was, now = _read_durations(old, waits), _read_durations(new, waits)
    return [
        word
        for word, times in now.items()
        if (waits is _SLEEP and len(times) > len(was.get(word, [])))
        or (
            len(times) == len(was.get(word, []))
            and any(a > b for a, b in zip(times, was[word], strict=True))
        )
    ]


def _read_durations(version: TestVersion, waits: re.Pattern[str]) -> dict[str, list[float]]:
    said = " ".join(version.words)
    found: dict[str, list[float]] = {}
    for match in waits.finditer(said):
        after = _DURATION.search(said[match.end() : match.end() + 90])
        if after:
            unit = _UNITS.get((after[2] or "").lower()[:3], 1.0)
            found.setdefault(match[1], []).append(float(after[1].replace("_", "")) * unit)
    if waits is _PATIENCE and (limits := _list_limits(version)):
        found["timeout"] = [*found.get("timeout", []), *limits]
    return found


def _list_limits(version: TestVersion) -> list[float]:
    """The last argument of a test in JavaScript, in seconds."""
    if version.test.language.name not in ("javascript", "typescript", "tsx"):
        return []
    marks = (mark.replace("_", "") for mark in version.test.marks)
    return [int(mark) / 1000 for mark in marks if re.fullmatch(r"\d{4,}", mark)]


_DURATION = _TABLE.get_pattern("duration")
_UNITS = {"mil": 0.001, "ms": 0.001, "sec": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "hou": 3600.0}
"""Seconds by the beginning of a unit's name."""
