"""Code that tries to stop the rules, and code that they cannot parse."""

import random

import pytest

from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.proof.syntax import languages
from gitlab_nightshift.settings.model import Settings
from tests.support.pairs import Pair, change_of, raised, read_pairs
from tests.support.runaway import bounded
from tests.support.tables import each


def many(count: int, name: str) -> str:
    return "".join(f"def test_{name}{i}():\n    assert f({i}) == {i * 7}\n\n" for i in range(count))


@each(
    ("path", "before", "after"),
    [
        ("tests/test_a.py", "x = 1\n", "x = " + "(" * 20_000 + ")" * 20_000 + "\n"),
        ("test/a.test.js", "x\n", "f(" * 20_000 + ")" * 20_000),
        ("test/a.test.js", "x\n", "it('a', () => { expect(a" + ".b()" * 50_000 + ").toBe(1) })"),
        ("src/a.ts", "export {" * 20_000, "x\n"),
        ("src/a.py", f"def f() -> {'Optional[' * 5000}{']' * 5000}: pass\n", "def f(): pass\n"),
        ("tests/test_a.py", many(200, "old"), many(200, "new")),
        ("src/a.py", "x\n", "x = [" + "sys.argv[0], " * 4000 + "]\n"),
        ("src/a.rs", "x\n", "#[test] fn a() { " + "assert!(" * 2000 + "x" + ")" * 2000 + "}\n"),
        ("a_test.go", "package a\n", "func TestA(t *testing.T) {" + "if a {\n" * 5000),
        ("src/a.py", "x\n", "\ud800\x00 def f(:\n  except:\n".encode("utf-8", "replace").decode()),
    ],
)  # fmt: skip
def test_hostile_code_costs_little(path: str, before: str, after: str) -> None:
    with bounded():
        find_red_flags(change_of({path: before}, {path: after}), Context(Settings()))


def test_broken_code_raises_nothing() -> None:
    chance = random.Random(7)
    _, pairs = read_pairs("realistic")
    for _ in range(150):
        pair = chance.choice(pairs)
        before = {path: cut(text, chance) for path, text in pair.before.items()}
        after = {path: cut(text, chance) for path, text in pair.after.items()}
        find_red_flags(change_of(before, after), Context(Settings()))


def cut(text: str, chance: random.Random) -> str:
    """A text with pieces left out, doubled or replaced by signs."""
    for _ in range(chance.randint(0, 5)):
        at = chance.randrange(len(text) + 1)
        sign = chance.choice(
            ["", text[at : at + 30] * 2, chance.choice("(){}[]\"'`:;,.=#\n@!<\x00é")]
        )
        text = text[:at] + sign + text[at + chance.randint(0, 30) :]
    return text


def test_tests_in_a_file_that_becomes_too_large_to_read_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(languages, "LARGEST", 10_000)
    before = {"tests/test_a.py": "def test_a():\n    assert f() == 1\n"}
    after = {"tests/test_a.py": "# filler\n" * 1200 + "def test_a():\n    assert f() == 1\n"}
    flags, _ = read_pairs("realistic")
    found = {name for name, *_ in raised(Pair("large", set(), before, after), flags)}
    assert found == {"test-deleted"}
