"""Dangerous calls that only moved, or of which the file had some before."""

from tests.support.judging import Judge


def test_a_moved_call_is_no_finding(raised: Judge) -> None:
    before = {"a.py": "def f(x):\n    return eval(x)\n\n\ny = 1\n"}
    after = {"a.py": "y = 1\n", "b.py": "def g(x):\n    if x:\n        return eval(x)\n"}
    assert raised(before, after, "dangerous-call") == []


def test_another_unsafe_block_is_a_warning(raised: Judge) -> None:
    text = "fn f() { unsafe { a() } }\n"
    [found] = raised({"a.rs": text}, {"a.rs": text + "fn g() { unsafe { b() } }\n"})
    assert (found.name, found.level) == ("dangerous-call", "warn")
