"""Dangerous calls that only moved, and one more of a kind that was there before."""

from tests.support.judging import Judge


def test_a_call_that_only_moved(raised: Judge) -> None:
    before = {"a.py": "def f(x):\n    return eval(x)\n\n\ny = 1\n"}
    after = {"a.py": "y = 1\n", "b.py": "def g(x):\n    if x:\n        return eval(x)\n"}
    assert raised(before, after, "dangerous-call") == []


def test_one_more_unsafe_block_is_asked_about(raised: Judge) -> None:
    text = "fn f() { unsafe { a() } }\n"
    [found] = raised({"a.rs": text}, {"a.rs": text + "fn g() { unsafe { b() } }\n"})
    assert (found.name, found.level) == ("dangerous-call", "warn")
