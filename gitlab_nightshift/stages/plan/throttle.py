"""Tries categories less often that people reject or ignore. Pure functions."""

from collections.abc import Iterable
from datetime import date, timedelta

from gitlab_nightshift.gitlab.memory import Memory
from gitlab_nightshift.records.history_records import IGNORED_AFTER
from gitlab_nightshift.records.products import KnownMergeRequest

FIRST_PAUSE, MOST_DOUBLINGS = timedelta(weeks=1), 3
"""The pause after two rejections in a row, doubled by each further one: at most eight weeks."""
MOST_REFUSED, MOST_IGNORED = 2, 3


def find_throttle_reason(category: str, memory: Memory, day: date) -> str:
    """Why a category is paused, and until when; "" if it may be tried."""
    refused = _list_last_refused(category, memory)
    if len(refused) >= MOST_REFUSED:
        pause = FIRST_PAUSE * 2 ** min(len(refused) - MOST_REFUSED, MOST_DOUBLINGS)
        back = date.fromisoformat(refused[0].day) + pause
        if day < back:
            names = _format_names(refused)
            return f"the last {len(refused)} were closed unmerged ({names}); tried from {back} on"
    ignored = [each for each in list_ignored(memory, day) if each.category == category]
    if ignored:
        back = date.fromisoformat(ignored[0].opened) + IGNORED_AFTER * 2 ** min(len(ignored), 3)
        if day < back:
            names = _format_names(ignored)
            return f"nobody has looked at {names} for two weeks; tried from {back} on"
    return ""


def list_pausing(memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """The three newest open merge requests if all are ignored, which pauses nights; or else
    none."""
    newest = sorted(memory.opened, key=lambda each: each.iid, reverse=True)[:MOST_IGNORED]
    ignored = list_ignored(memory, day)
    whole = len(newest) == MOST_IGNORED and all(each in ignored for each in newest)
    return tuple(newest) if whole else ()


def describe_pause(pausing: Iterable[KnownMergeRequest]) -> str:
    """Why nights pause, and what ends the pause."""
    names = _format_names(pausing)
    return f"nobody has looked at {names} for two weeks: merge, close or answer one to go on"


def list_ignored(memory: Memory, day: date) -> tuple[KnownMergeRequest, ...]:
    """Open merge requests that no person has touched for two weeks, newest first."""
    found = (
        each
        for each in memory.opened
        if each.unread and each.opened and day - date.fromisoformat(each.opened) >= IGNORED_AFTER
    )
    return tuple(sorted(found, key=lambda each: each.iid, reverse=True))


def _list_last_refused(category: str, memory: Memory) -> tuple[KnownMergeRequest, ...]:
    """Merge requests closed unmerged since the last merged one, newest first."""
    merged = max((each.day for each in memory.merged if each.category == category), default="")
    found = (each for each in memory.rejected if each.category == category and each.day > merged)
    return tuple(sorted(found, key=lambda each: (each.day, each.iid), reverse=True))


def _format_names(known: Iterable[KnownMergeRequest]) -> str:
    return ", ".join(f"!{each.iid}" for each in known)
