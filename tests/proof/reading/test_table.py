"""The list of flags, and their documentation."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.site.generated_pages import render_flags
from gitlab_nightshift.proof.reading import added_text
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.registry.flag_registry import FLAGS, FlagEntry
from tests.support.judging import Judge
from tests.support.tables import each

CHECKS = (Path(__file__).parents[3] / "docs/checks.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| [a-z' ]+ \| (`.*`) \|$", CHECKS, re.MULTILINE)


def test_every_flag_is_named_once_in_the_documentation() -> None:
    assert sorted(re.findall("`([^`]+)`", "".join(ROWS))) == sorted(FLAGS)


@each("name", FLAGS)
def test_the_site_says_of_every_flag_what_raises_it_and_its_levels(name: str) -> None:
    flag = FLAGS[name]
    section = render_flags().partition(f"## {name}\n")[2].partition("\n## ")[0]
    assert flag.what in section
    assert flag.why in section
    assert flag.warn_if in section
    level, people = re.findall(r"^\| [a-z' ]+ \| (.*) \|$", section, re.MULTILINE)
    assert level.startswith(f"`{flag.level}`")
    assert all(f"`{other}` in {category}" in level for category, other in flag.levels.items())
    assert people.startswith(f"`{flag.human_level}`")


@each("name", FLAGS)
def test_every_flag_says_why_it_matters(name: str) -> None:
    assert re.fullmatch(r"[A-Z].{15,90}\.", FLAGS[name].why)


IMAGE = {"logo.png": b"\0"}


@each("level", ["fail", "warn"])
def test_settings_decide_the_level(raised: Judge, level: str) -> None:
    settings = f"policy: {{flags: {{binary-file: {level}}}}}"
    assert [f.level for f in raised({}, IMAGE, settings=settings)] == [level]


def test_a_flag_that_is_off_is_not_raised(raised: Judge) -> None:
    assert raised({}, IMAGE, settings="policy: {flags: {binary-file: off}}") == []


def test_a_category_may_have_a_level_of_its_own(raised: Judge) -> None:
    bad = {"README.md": "See [here](gone.md).\n"}
    assert [f.level for f in raised({}, bad, "broken-link")] == ["warn"]
    assert [f.level for f in raised({}, bad, "broken-link", category="docs")] == ["fail"]
    settings = "policy: {flags: {broken-link: warn}}"
    found = raised({}, bad, "broken-link", category="docs", settings=settings)
    assert [f.level for f in found] == ["warn"]


def test_failures_come_first(raised: Judge) -> None:
    after = {"README.md": "See [here](gone.md).\n", "z.png": b"\0", "a.png": b"\0"}
    assert [f.file for f in raised({}, after)] == ["a.png", "z.png", "README.md"]


def test_an_empty_change_raises_nothing(raised: Judge) -> None:
    assert raised(IMAGE, {}) == []


def test_a_flag_is_a_rule_and_an_entry(raised: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings know it, too."""

    def find_images(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
        for file in change.files:
            yield RuleViolation(file.path, 1, "an image")

    monkeypatch.setattr(added_text, "find_images", find_images, raising=False)
    entry = FlagEntry(
        "warn", "Images are heavy.", "added_text:find_images", what="An image is added."
    )
    monkeypatch.setitem(FLAGS, "image-added", entry)
    assert [(f.name, f.level) for f in raised({}, IMAGE, "image-added")] == [
        ("image-added", "warn")
    ]
    found = raised({}, IMAGE, "image-added", settings="policy: {flags: {image-added: fail}}")
    assert [f.level for f in found] == ["fail"]


def test_a_rule_that_raises_is_a_finding(raised: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change made to break it does not get past; the other flags look all the same."""

    def broken(_change: Changeset, _context: Context) -> Iterator[RuleViolation]:
        raise RecursionError
        yield

    monkeypatch.setattr(added_text, "find_added_secrets", broken)
    found = raised({}, IMAGE)
    assert [(f.name, f.level) for f in found] == [("secret-added", "fail"), ("binary-file", "fail")]
    assert "could not look at the change: RecursionError" in found[0].detail


HOSTILE = {
    "pyproject.toml": b"\xff\xfe[[[",
    ".gitlab-ci.yml": b"a: &a [*a, *a]\nb: {{{",
    "package.json": b'{"scripts": [1], "jest": 5, "dependencies": "x"}',
    "tsconfig.json": b"[1,2",
    "setup.cfg": b"[flake8\nignore = ]\n%(x)s",
    "checkstyle.xml": b'<!DOCTYPE x [<!ENTITY a "aaaa">]><module>&a;</module>',
    ".eslintrc": b"\x00".replace(b"\x00", b"{'"),
    "README.md": b"[a](b]\n```python\ndef\n```\n[c](%zz)\n[d](http://[)\n",
    "a.py": b"def f(:\n\xff\n" + b"(" * 500,
    "b.go": b"package",
    "odd\tname.py": b"eval(x)\n",
    "Makefile": b"\t-x\n:::\na:\\\n",
    ".github/workflows/a.yml": b"on: 5\njobs: [1]\n",
    ".rubocop.yml": b"- 1\n- 2\n",
    "pom.xml": b"<a",
}


def test_hostile_files_crash_no_rule(raised: Judge) -> None:
    raised({}, HOSTILE)
    raised(HOSTILE, dict.fromkeys(HOSTILE))
    raised(HOSTILE, {path: data + b"\nx" for path, data in HOSTILE.items()})
