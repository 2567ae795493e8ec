"""Matches tests as runners report them to tests in files."""

from gitlab_nightshift.proof.syntax.single_test import Test


def is_reported_as(name: str, test: Test) -> bool:
    """True if a reported name (``tests/test_a.py::TestA::test_b``, ``pkg::TestA/row``,
    ``a.test.js::suite title``, ``com.shop.CartTest::total``) is this test."""
    last = name.rpartition("::")[2]
    return (
        last == test.name
        or last.startswith(f"{test.name}/")
        or last.endswith((f" {test.name}", f".{test.name}", f"/{test.name}"))
    )
