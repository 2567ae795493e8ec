"""A change as a suggestion: to the character, or not at all."""

import difflib

import pytest

from gitlab_nightshift.records.request import DiffSpot
from gitlab_nightshift.stages.publish.suggestion import render_suggestion

OLD = [f"line {number}" for number in range(1, 301)]
SPOT = DiffSpot("a.py", 150, 20, 290)


def diff(new: list[str], around: int = 100, path: str = "a.py") -> str:
    """As git writes it."""
    lines = difflib.unified_diff(OLD, new, f"a/{path}", f"b/{path}", n=around, lineterm="")
    return "\n".join([f"diff --git a/{path} b/{path}", "index 1..2 100644", *lines, ""])


def suggested(new: list[str], spot: DiffSpot | None = SPOT) -> str:
    return render_suggestion(diff(new, 3), diff(new), spot)


def applied(text: str, line: int = SPOT.line) -> list[str]:
    """What GitLab makes of the file."""
    head, *lines, end = text.split("\n")
    above, below = head.removeprefix("```suggestion:-").split("+")
    assert end == "```"
    return [*OLD[: line - int(above) - 1], *lines, *OLD[line + int(below) :]]


@pytest.mark.parametrize(
    "new",
    [
        [*OLD[:149], "other", *OLD[150:]],
        [*OLD[:149], *OLD[150:]],
        [*OLD[:150], "more", "\tand more", *OLD[150:]],
        [*OLD[:99], "x", *OLD[99:199], *OLD[202:]],
        [*OLD[:60], *OLD[65:240], "y", *OLD[240:]],
    ],
)
def test_what_gitlab_makes_of_a_suggestion_is_the_change(new: list[str]) -> None:
    assert applied(suggested(new)) == new


@pytest.mark.parametrize(
    "new",
    [
        [*OLD[:10], "not shown", *OLD[10:]],
        [*OLD[:40], "too far above", *OLD[40:]],
        [*OLD[:149], "```", *OLD[150:]],
        [*OLD[:149], "/close", *OLD[150:]],
        [*OLD[:149], "<!-- nightshift-upkeep: repair run 1 -->", *OLD[150:]],
        [*OLD[:149], "zero\u200bwidth", *OLD[150:]],
    ],
)
def test_what_cannot_be_one_is_a_folded_patch(new: list[str]) -> None:
    """Of lines that the diff does not show, or with text that would act or hide."""
    text = suggested(new)
    assert "suggestion:" not in text
    assert text.startswith("<details><summary>The patch is in the artifacts: bundle/change.patch<")
    assert "<!--" not in text
    assert not any(line.startswith("/") for line in text.split("\n"))


def test_a_thread_elsewhere_and_a_long_patch() -> None:
    new = [*OLD[:149], "other", *OLD[150:]]
    assert "```diff\ndiff --git" in suggested(new, None)
    assert "```diff\ndiff --git" in suggested(new, DiffSpot("b.py", 150, 20, 290))
    assert "artifacts" in suggested([f"{line * 20}" for line in OLD], None).split("\n")[0]
    assert len(suggested([line * 50 for line in OLD], None)) < 200


def test_a_change_of_two_files_is_none_although_the_first_is_the_commented_one() -> None:
    new = [*OLD[:149], "other", *OLD[150:]]
    both = diff(new, 3) + diff(new, 3, "b.py")
    assert "```diff\ndiff --git" in render_suggestion(both, both, SPOT)
