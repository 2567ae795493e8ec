"""The improvement that test nights find in the sample project, and the plays that lead to it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import turns as model
from tests.support.agent import REAL, Play, answer, append, leave, retry, spend
from tests.support.turns import Request, Turn, Usage, by_phrase

TEST = "\n    def test_discount(self):\n        self.assertEqual(total([10], 50), 5)\n"
"""Three lines at the end of ``test_shop.py``: a new test, which is run against mutants."""
NOTE = "\n    # A discount is in percent.\n"
"""Two lines at the same place that nothing has to run for."""

SELECTED: dict[str, Any] = {
    "rank": 1,
    "files": ["test_shop.py"],
    "description": "Test the discount of total().",
    "rationale": "It is the only branch of the function.",
}
FOUND: dict[str, Any] = {
    "result": "IMPROVEMENT_FOUND",
    "category_used": "tests",
    "files_scanned": 5,
    "candidates": [
        SELECTED,
        {
            "rank": 2,
            "files": ["shop.py"],
            "description": "Name the percentage.",
            "rationale": "Small.",
        },
    ],
    "selected": SELECTED,
}
PASSED: dict[str, Any] = {"passed": True, "commands_run": ["make test"]}
DRAFT: dict[str, Any] = {
    "title": "Test the discount of total()",
    "branch_slug": "test-discount",
    "commit_message": "Test the discount of total()\n\nIt had no test.",
    "summary": "A discount was never tested.",
    "reasoning": "Wrong totals cost money.",
    "changes": "One test more.",
    "rejected_alternatives": ["Name the percentage: of little use."],
    "answers": [],
}

GOOD: dict[str, Play] = {
    "analyze": [answer(FOUND)],
    "implement": [append("test_shop.py", NOTE)],
    "verify": [answer(PASSED)],
    "mr": [answer(DRAFT)],
}
"""A night that goes well at once."""
REALLY: dict[str, Play] = dict.fromkeys(GOOD, REAL)
"""Every bead by the real CLI."""

KEY_REFUSED: Play = [*[retry(401)] * 3, leave(1)]
"""An Analyze with which a night fails at once: no other category is tried."""


def completed(analysis: dict[str, Any], **selected: Any) -> dict[str, Any]:
    """A terse analysis as a record holds it; ``selected`` are other values of that candidate."""
    unsaid = {"value": 0, "evidence": []}
    return {
        "reason": "",
        **analysis,
        "candidates": [{**unsaid, **candidate} for candidate in analysis["candidates"]],
        "selected": {**unsaid, **analysis["selected"], **selected},
    }


def nothing(reason: str = "Everything is tested.", scanned: int = 3) -> Play:
    """An Analyze that finds nothing."""
    return [answer({"result": "NO_IMPROVEMENT", "reason": reason, "files_scanned": scanned})]


def refused(why: str) -> Play:
    """A Verify that does not pass the change."""
    return [answer({"passed": False, "error_details": why})]


def priced(play: Play, usd: float) -> Sequence[Any]:
    """The same play after a request of that price; the night needs an endpoint of ``bill``."""
    return [spend(usd), *play]


def bill(request: Request) -> Turn:
    """The script of an endpoint for ``spend``: an answer that costs as many tokens of input as are
    asked for. One of output costs five of them."""
    return Turn("Paid.", usage=Usage(int(request.prompt.split()[0]) - 5, 1))


# --- the same for the real CLI: turns of a model ------------------------------------------------

BEADS = by_phrase(
    {
        "# Task: find one": "analyze",
        "# Task: make one": "implement",
        "# Task: check": "verify",
        "# Task: describe": "mr",
    }
)
"""Which bead a request belongs to, by the packaged prompts."""


def turns(checkout: Path) -> dict[str, list[Turn]]:
    """What the model says in a night that goes well at once."""
    test = checkout / "test_shop.py"
    last = "        self.assertEqual(total([1, 2]), 3)\n"
    return {
        "analyze": [model.bash("git ls-files"), model.answer(FOUND)],
        "implement": [
            model.read(test),
            model.edit(test, last, last + NOTE),
            model.bash("make test"),
            model.say("I added a test."),
        ],
        "verify": [model.bash("make test"), model.answer(PASSED)],
        "mr": [model.answer(DRAFT)],
    }
