"""Whole nights with the real claude CLI against a scripted endpoint."""

from pathlib import Path

from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import answer, bash, by_phrase, edit, read, say
from tests.support.world import BOT_TOKEN, SECRETS, World, world

BEADS = by_phrase(
    {
        "# Task: find one": "analyze",
        "# Task: make one": "implement",
        "# Task: check": "verify",
        "# Task: describe": "mr",
    }
)
FOUND = {
    "result": "IMPROVEMENT_FOUND",
    "files_scanned": 5,
    "candidates": [
        {"rank": 1, "files": ["test_shop.py"], "description": "Test the discount of total()."},
        {
            "rank": 2,
            "files": ["shop.py"],
            "description": "Name the percentage.",
            "rationale": "small",
        },
    ],
    "selected": {
        "rank": 1,
        "files": ["test_shop.py"],
        "description": "Test the discount of total().",
    },
}
DRAFT = {
    "title": "Test the discount of total()",
    "summary": "A discount was never tested.",
    "branch_slug": "test-discount",
    "commit_message": "Test the discount of total()\n\nIt had no test.",
    "reasoning": "It is the only branch of the function.",
    "changes": "One test.",
}
OLD = "        self.assertEqual(total([1, 2]), 3)\n"
NEW = OLD + "\n    def test_discount(self):\n        self.assertEqual(total([10], 50), 5)\n"


def implement(checkout: Path):
    file = str(checkout / "test_shop.py")
    return [read(file), edit(file, OLD, NEW), bash("make test"), say("I added a test.")]


def test_happy_path(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        script = {
            "analyze": [bash("git ls-files"), answer(FOUND)],
            "implement": implement(shop.checkout),
            "verify": [bash("make test"), answer({"passed": True, "commands_run": ["make test"]})],
            "mr": [answer(DRAFT)],
        }
        with ModelEndpoint(script, bead_of=BEADS) as endpoint:
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        print(done.stdout, done.stderr)
        assert done.exit_status == 0
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        assert shop.tree() == shop.before
        assert shop.result["outcome"] == "MR_CREATED"
