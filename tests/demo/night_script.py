"""What the model answers in the demo's recorded night; see ``record_night.py``."""

from pathlib import Path

from tests.support.turns import Call, Turn, answer, say

TESTS = "tests/test_shipping.py"
HEAD = "from basket.shipping import TooHeavyError, cost"
LAST = """\
    def test_too_heavy(self) -> None:
        with self.assertRaises(TooHeavyError):
            cost(Decimal("80.00"), 12_000)
"""
FIRST_HEAD = "from basket.shipping import BANDS, FREE_FROM, TooHeavyError, cost"
FIRST_ATTEMPT = """
    def test_free_from_threshold(self) -> None:
        cent = Decimal("0.01")
        self.assertEqual(cost(FREE_FROM - cent, 300), Decimal("2.90"))
        self.assertEqual(cost(FREE_FROM + cent, 300), Decimal("0.00"))

    def test_never_free_to_another_country(self) -> None:
        self.assertEqual(cost(Decimal("80.00"), 300, "AT"), Decimal("8.90"))

    def test_limits_of_the_bands(self) -> None:
        for limit, price in BANDS:
            with self.subTest(limit=limit):
                self.assertEqual(cost(Decimal("12.00"), limit), price)
"""
SECOND_ATTEMPT = """
    def test_free_from_fifty_euros(self) -> None:
        self.assertEqual(cost(Decimal("49.99"), 300), Decimal("2.90"))
        self.assertEqual(cost(Decimal("50.00"), 300), Decimal("0.00"))

    def test_never_free_to_another_country(self) -> None:
        self.assertEqual(cost(Decimal("80.00"), 300, "AT"), Decimal("8.90"))

    def test_a_limit_belongs_to_the_cheaper_band(self) -> None:
        prices = {500: "2.90", 501: "4.90", 2_000: "4.90", 2_001: "8.90", 10_000: "8.90"}
        for grams, price in prices.items():
            with self.subTest(grams=grams):
                self.assertEqual(cost(Decimal("12.00"), grams), Decimal(price))

    def test_one_gram_too_heavy(self) -> None:
        with self.assertRaises(TooHeavyError):
            cost(Decimal("12.00"), 10_001)
"""

SHIPPING = {
    "rank": 1,
    "files": [TESTS],
    "description": "Test cost() in tests/test_shipping.py on both sides of its limits (50.00;"
    " 500 g, 2 kg, 10 kg), and that other countries never ship free. Proof: make test",
    "rationale": "Every order is priced by these comparisons, README and docstring state the"
    " results, and no test stands on a limit: with `>` for `>=` in cost() all tests would pass.",
}
VAT = {
    "rank": 2,
    "files": ["tests/test_vat.py"],
    "description": "Test included() for France and the Netherlands.",
    "rationale": "Real, but the rates are a plain table: the tests would only repeat it.",
}
RECEIPT = {
    "rank": 3,
    "files": ["tests/test_receipt.py"],
    "description": "Test the receipt of a book whose title is wider than its column.",
    "rationale": "Worth having, but tests/test_receipt.py was changed by a recent commit.",
}
NOTHING_TO_REFACTOR = (
    "Five small modules, no dead code, no copies: the two roundings differ on purpose (README)."
    " receipt() could be split, but was changed by a recent commit."
)
REFUSED = (
    "With `>` for `>=` in cost() all 24 tests would still pass: none orders for exactly 50.00. And"
    " test_limits_of_the_bands takes its prices from BANDS, the table under test.\n"
    "Use the values of the README: 49.99 and 50.00; 500, 501, 2000, 2001 and 10000 g; 10001 g is"
    " refused. test_never_free_to_another_country is right as it is."
)
DRAFT = {
    "title": "Test the limits of the shipping prices",
    "branch_slug": "test-shipping-limits",
    "commit_message": "Test the limits of the shipping prices\n\n"
    "No test ordered for exactly 50.00 or shipped exactly 500 g: a limit could\n"
    "move by a cent or a gram unnoticed.",
    "summary": "Free shipping and the three weight bands are now tested on their limits. A limit"
    " that moves by a cent or a gram fails a test; before, none did.",
    "reasoning": "Every order is priced by these comparisons, and README and docstring state what"
    " is right, so the expected prices are certain. Only tests are added; a reviewer can hold the"
    " prices against the README's table. VAT rates of the single countries stay untested.",
    "changes": "- `tests/test_shipping.py`: free from 50.00 and not at 49.99; never free to other"
    " countries; the limits of the bands; one gram too heavy",
    "rejected_alternatives": [
        "VAT for France and the Netherlands: the tests would only repeat the table of rates.",
        "A title wider than the receipt's column: tests/test_receipt.py was changed recently.",
    ],
}

Key = tuple[str, bool]
"""A kind of bead, and whether it is the second of its kind in this night."""


def night_script(checkout: Path, base: str) -> dict[Key, list[Turn]]:
    """The turns of each bead."""
    show = f"git diff {base[:12]}"
    files = _bash("git ls-files", "List all files")
    test = _bash("make test", "Run the tests")
    diff = _bash(show, "Show the change")
    log = _bash("git log --no-merges -n 15 --format=%B", "Read the last commit messages")
    roundings = _bash("git grep -n quantize", "Find the roundings")
    modules = [f"basket/{name}.py" for name in ("cart", "coupons", "receipt", "shipping", "vat")]

    def read(*names: str) -> tuple[Call, ...]:
        return tuple(Call("Read", {"file_path": str(checkout / name)}) for name in names)

    def edit(old: str, new: str) -> Call:
        place = str(checkout / TESTS)
        return Call("Edit", {"file_path": place, "old_string": old, "new_string": new})

    return {
        ("analyze", False): [
            Turn(calls=(files, *read(".editorconfig", "README.md"))),
            Turn("Few files: I read the modules whole.", read(*modules)),
            Turn(calls=(roundings,)),
            _told(
                "The roundings look like a copy, but the README says why they are none.",
                result="NO_IMPROVEMENT",
                category_used="refactoring",
                reason=NOTHING_TO_REFACTOR,
                files_scanned=7,
                candidates=[],
            ),
        ],
        ("analyze", True): [
            Turn(calls=(files, *read("README.md", "basket/shipping.py", TESTS))),
            Turn(
                "cost() compares with four limits, and no test stands on one. And the others?",
                read("basket/vat.py", "tests/test_vat.py", "tests/test_receipt.py"),
            ),
            _told(
                "",
                result="IMPROVEMENT_FOUND",
                category_used="tests",
                files_scanned=6,
                candidates=[SHIPPING, VAT, RECEIPT],
                selected=SHIPPING,
            ),
        ],
        ("implement", False): [
            Turn(calls=read("basket/shipping.py", TESTS)),
            Turn(calls=(edit(HEAD, FIRST_HEAD), edit(LAST, LAST + FIRST_ATTEMPT))),
            Turn(calls=(test,)),
            say("I added three tests for the limits of cost() to tests/test_shipping.py."),
        ],
        ("verify", False): [
            Turn(calls=(diff, *read("basket/shipping.py", "README.md"))),
            Turn("Would these tests fail if the code were wrong?", (test,)),
            _told(
                "They pass, but two of them would pass with a mistake in the code as well.",
                passed=False,
                error_details=REFUSED,
                commands_run=[show, "make test"],
            ),
        ],
        ("implement", True): [
            Turn(calls=read("basket/shipping.py", TESTS, "README.md")),
            Turn(
                "This time the literal values of the README, on both sides of each limit.",
                (edit(LAST, LAST + SECOND_ATTEMPT),),
            ),
            Turn(calls=(test,)),
            say("I added four tests with the README's values to tests/test_shipping.py."),
        ],
        ("verify", True): [
            Turn(calls=(diff, *read("basket/shipping.py", "README.md"))),
            Turn("Each limit is tried on both sides, against the README's prices.", (test,)),
            _told("", passed=True, error_details="", commands_run=[show, "make test"]),
        ],
        ("mr", False): [Turn(calls=(diff, log)), _told("", **DRAFT)],
    }


def _bash(command: str, description: str) -> Call:
    return Call("Bash", {"command": command, "description": description})


def _told(text: str, **handoff: object) -> Turn:
    return Turn(text, answer(handoff).calls)
