"""Changed tests held against what they were, by planted mistakes."""

from gitlab_nightshift.records.verdicts import CheckOutcome
from gitlab_nightshift.verdict.evidence.weakened_tests import compare_strength
from tests.support.tables import each
from tests.verdict.evidence.conftest import Tried

SHOP = "def size(n):\n    return n + 1\n\n\ndef area(n):\n    return n * n\n"
HEAD = "import unittest\nfrom shop import area, size\n\n\nclass Sizes(unittest.TestCase):\n"
SIZE = "    def test_size(self):\n        self.assertEqual(size(3), 4)\n"
AREA = "    def test_area(self):\n        self.assertEqual(area(3), 9)\n"
TESTS = HEAD + SIZE + AREA
OTHER = HEAD.replace("Sizes", "Others") + AREA.replace("(3), 9", "(4), 16")


@each(
    ("before", "after", "seen_as"),
    [
        ({}, {"test_shop.py": TESTS.replace("size(3), 4", "size(3), size(3)")}, "failed"),
        ({}, {"test_shop.py": HEAD + SIZE + "\n    test_area = print\n"}, "failed"),
        (
            {},
            {"test_shop.py": TESTS.replace("area(3), 9", "bool(area(3)), bool(9)")},
            "failed",
        ),
        ({}, {"test_shop.py": TESTS.replace("size(3), 4", "size(7), 8")}, "passed"),
        ({}, {"test_shop.py": HEAD + AREA + SIZE.replace("size(self)", "plus(self)")}, "passed"),
        ({"test_other.py": OTHER}, {"test_shop.py": HEAD + SIZE}, "passed"),
        (
            {},
            {
                "shop.py": SHOP.replace("n + 1", "n + 2"),
                "test_shop.py": TESTS.replace(", 4", ", 5"),
            },
            "not_checked",
        ),
        ({}, {"test_shop.py": TESTS + SIZE.replace("size(self)", "more(self)")}, None),
        ({}, {"shop.py": SHOP + "\nSIZE = 1\n"}, None),
    ],
)
def test_a_mistake_that_was_found_is_still_found(
    tried: Tried, before: dict[str, str], after: dict[str, str], seen_as: str | None
) -> None:
    files = {"shop.py": SHOP, "test_shop.py": TESTS, **before}
    with tried(files, after, commands=("python3 -m unittest",)) as (subject, lab):
        seen = compare_strength(subject, lab)
    assert [check.outcome for check in seen.checks] == (
        [CheckOutcome(seen_as)] if seen_as else []
    ), seen
    flags = [(finding.name, finding.level) for finding in seen.findings]
    assert flags == ([("test-loosened", "fail")] if seen_as == "failed" else [])
