"""Findings that fail a night's change, and are only warnings in a person's."""

from tests.support.judging import Files, Judge
from tests.support.tables import each

CART = "def total(items):\n    return sum(item.price for item in items)\n"
TESTS = (
    "from cart import total\n\n\ndef test_none():\n    assert total([]) == 0\n\n\n"
    "def test_one(item):\n    assert total([item]) == item.price\n"
    "    assert total([item, item]) > item.price\n"
)
BEFORE = {
    "cart.py": CART,
    "tests/test_cart.py": TESTS,
    "requirements.txt": "pytest==8.1\n",
}
DELETED = TESTS.partition("\n\n\ndef test_one")[0] + "\n"
REMOVED = TESTS.replace("    assert total([item, item]) > item.price\n", "")
LOOSER = TESTS.replace("assert total([]) == 0", "assert total([]) >= 0")
OTHER_CODE = {"cart.py": CART.replace("item.price", "item.price * item.count")}
COMMENTED = {"cart.py": "# All prices are in cents.\n" + CART}
SHOP = "def load():\n    try:\n        read()\n    except Exception:\n        raise\n"
KEPT = "    assert total([2]) == 2\n    assert total([4]) == 4\n"
SKIPPED = "\n\n@pytest.mark.skip\ndef test_skipped():\n    assert total([3, 4, 5]) == 12\n"
BRANCHED = (
    "def test_sum():\n    if OLD:\n        assert total([1]) == 1.0\n    else:\n"
    + KEPT.replace("    ", "        ")
    + SKIPPED
)
UNBRANCHED = "def test_sum():\n" + KEPT + SKIPPED

CERTAIN: list[tuple[str, Files]] = [
    ("test-deleted", {"tests/test_cart.py": DELETED}),
    ("test-deleted", {"tests/test_cart.py": DELETED, **COMMENTED}),
    ("test-deleted", {"tests/test_cart.py": DELETED, "README.md": "# Cart\n\nSums prices.\n"}),
    ("assertion-removed", {"tests/test_cart.py": REMOVED}),
    ("test-cannot-fail", {"tests/test_cart.py": TESTS.replace("total([]) == 0", "True")}),
    (
        "test-cannot-fail",
        {"tests/test_cart.py": TESTS + "\n\ndef test_x():\n    assert cart == cart\n"},
    ),
    ("dangerous-call", {"shop.py": SHOP + "\n\ndef run(text):\n    return eval(text)\n"}),
    ("test-loosened", {"tests/test_cart.py": LOOSER}),
    (
        "test-skipped",
        {
            "tests/test_cart.py": TESTS.replace("def test_one", "@pytest.mark.skip\ndef test_one"),
            **OTHER_CODE,
        },
    ),
    (
        "test-skipped",
        {"tests/test_cart.py": TESTS.replace("none():\n", "none():\n    if True: return\n")},
    ),
]


@each("flag, after", CERTAIN)
def test_unexplained_violations_fail_for_people(raised: Judge, flag: str, after: Files) -> None:
    found = raised({**BEFORE, "shop.py": SHOP}, after, flag, by_people=True)
    assert [each.level for each in found] == ["fail"]


ASKED: list[tuple[str, Files]] = [
    ("exception-swallowed", {"shop.py": SHOP.replace("raise", "pass")}),
    ("test-deleted", {"tests/test_cart.py": DELETED, **OTHER_CODE}),
    ("test-deleted", {"tests/test_cart.py": DELETED, "requirements.txt": "pytest==9.0\n"}),
    (
        "test-deleted",
        {
            "tests/test_cart.py": DELETED
            + "\n\ndef test_all(shop):\n    assert shop.sum() == 7\n    assert shop.count() == 2\n"
        },
    ),
    ("assertion-removed", {"tests/test_cart.py": REMOVED, **OTHER_CODE}),
    ("assertion-removed", {"tests/test_old.py": UNBRANCHED}),
    ("test-deleted", {"tests/test_old.py": BRANCHED.partition("@pytest")[0]}),
    ("test-loosened", {"tests/test_cart.py": LOOSER, **OTHER_CODE}),
    (
        "test-skipped",
        {
            "tests/test_cart.py": TESTS.replace(
                "    assert total([]) == 0", "    if not SUMS: return\n    assert total([]) == 0"
            )
        },
    ),
    (
        "test-skipped",
        {
            "tests/test_cart.py": TESTS
            + "\n\n@pytest.mark.skip\ndef test_large(shop):\n    assert shop.sum() == 7\n"
        },
    ),
    ("test-cannot-fail", {"tests/test_cart.py": TESTS + "    assert item <= item\n"}),
    (
        "dangerous-call",
        {"shop.py": SHOP + "\n\ndef name(password):\n    return hashlib.md5(password)\n"},
    ),
]


@each("flag, after", ASKED)
def test_explained_violations_are_warnings_for_people(
    raised: Judge, flag: str, after: Files
) -> None:
    before = {**BEFORE, "shop.py": SHOP, "tests/test_old.py": BRANCHED}
    found = raised(before, after, flag, by_people=True)
    assert [each.level for each in found] == ["warn"]
    assert [each.level for each in raised(before, after, flag)] == ["fail"]
    settings = f"policy: {{flags: {{{flag}: fail}}}}"
    found = raised(before, after, flag, by_people=True, settings=settings)
    assert [each.level for each in found] == ["fail"]


RUST = "pub fn one() -> i32 {\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n%s}\n"
TEST = "    #[test]\n    fn %s() {\n        assert_eq!(one(), 1);\n    }\n"


def test_inline_tests_do_not_count_as_changed_product_code(raised: Judge) -> None:
    before = {"src/lib.rs": RUST % (TEST % "is_one" + TEST.replace("1);", "one());") % "same")}
    after = RUST % (TEST % "is_one")
    gone = raised(before, {"src/lib.rs": after}, "test-deleted", by_people=True)
    assert [each.level for each in gone] == ["fail"]
    after = after.replace("    1\n", "    2 - 1\n")
    gone = raised(before, {"src/lib.rs": after}, "test-deleted", by_people=True)
    assert [each.level for each in gone] == ["warn"]
