"""Settings as tools resolve them: what reading misses is found, what it takes for looser is not."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitlab_nightshift.verdict.evidence.asked_tools import ask_tools, settle_findings
from gitlab_nightshift.verdict.evidence.lab import Evidence
from gitlab_nightshift.verdict.flags import judge
from gitlab_nightshift.verdict.tooling.resolved_settings import (
    compare_answers,
    list_tools,
    plan_questions,
)
from gitlab_nightshift.verdict.tooling.tool_answers import merge_answers, parse_answer
from tests.support.tables import each
from tests.verdict.evidence.conftest import Tried

Files = Mapping[str, str]
RUFF, MYPY = "linter-loosened", "types-loosened"
CODE = {"shop.py": "import os\n", "old.py": "", "tests/test_shop.py": "import os\n"}
TOOLS = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def judged(
    tried: Tried, before: Files, after: Mapping[str, str | None]
) -> tuple[list[str], Evidence]:
    """What reading alone says, by flag, and what the tools say."""
    with tried(before, after, PATH=TOOLS) as (subject, lab):
        read = judge(subject.change, subject.context)
        seen = ask_tools(subject, lab)
    settled = settle_findings(read, seen.answered)
    names = [each.name for each in read if each.name in (RUFF, MYPY)]
    left = [f for f in (*settled, *seen.findings) if f.name in (RUFF, MYPY)]
    return names, Evidence(seen.checks, tuple(left), seen.answered)


BASE = '[lint]\nselect = ["E", "F"]\n'
PYPROJECT = "[tool.ruff.lint]\nselect = {}\n"
TYPED = "disallow_untyped_defs = true\n"
MYPY_INI = "[mypy]\nstrict = true\n"


@each(
    ("before", "after", "flag", "said"),
    [
        (  # a shared base, under a name that reading does not know
            {"ruff.toml": 'extend = "ci/base.toml"\n', "ci/base.toml": BASE},
            {"ci/base.toml": '[lint]\nselect = ["E"]\n'},
            RUFF,
            "unused-import (F401)",
        ),
        (  # the inheritance goes
            {
                "ruff.toml": 'extend = "ci/base.toml"\n',
                "ci/base.toml": '[lint]\nselect = ["F", "B"]\n',
            },
            {"ruff.toml": "\n"},
            RUFF,
            "abstract-base-class-without-abstract-method (B024) and ",
        ),
        (  # a nearer file of settings takes a folder out
            {"ruff.toml": BASE},
            {"tests/ruff.toml": '[lint]\nselect = ["E"]\n'},
            RUFF,
            "unused-import (F401)",
        ),
        (
            {"ruff.toml": BASE},
            {".gitignore": "shop.py\n"},
            RUFF,
            "shop.py no longer checked",
        ),
        (
            {"setup.cfg": MYPY_INI},
            {"mypy.ini": "[mypy]\n"},
            MYPY,
            "disallow_any_generics was switched off",
        ),
    ],
)
def test_what_reading_misses_is_found(
    tried: Tried, before: Files, after: Mapping[str, str | None], flag: str, said: str
) -> None:
    read, seen = judged(tried, {**CODE, **before}, after)
    assert read == []
    (found,) = seen.findings
    assert (found.name, found.level) == (flag, "fail")
    assert said in found.detail


@each(
    ("before", "after"),
    [
        (  # the rules have another name
            {"pyproject.toml": PYPROJECT.format('["F", "PLR1701"]')},
            {"pyproject.toml": PYPROJECT.format('["F", "SIM101"]')},
        ),
        (  # to a file that others share
            {"ruff.toml": BASE},
            {"ruff.toml": 'extend = "ci/base.toml"\n', "ci/base.toml": BASE},
        ),
        (
            {"mypy.ini": f"[mypy]\n{TYPED}"},
            {"mypy.ini": f"[mypy]\n[mypy-shop,test_shop,tests.*]\n{TYPED}", "old.py": None},
        ),
    ],
)
def test_another_spelling_is_no_loosening(
    tried: Tried, before: Files, after: Mapping[str, str | None]
) -> None:
    read, seen = judged(tried, {**CODE, **before}, after)
    assert read != []
    assert seen.findings == ()
    assert seen.checks[0].detail.endswith("demands no less than before")


def test_what_cannot_be_asked_is_read(tried: Tried) -> None:
    """A tool that is not there, one that ends badly, and one that the change brings itself."""
    before, after = {**CODE, "ruff.toml": BASE}, {"ruff.toml": '[lint]\nselect = ["E"]\n'}
    lying = {".venv/bin/ruff": "#!/bin/sh\necho\n"}
    for more, path, why in [
        ({}, "/nonexistent", "it is not installed here"),
        ({"ruff.toml": "select = [\n"}, TOOLS, "it ended with exit 2"),
        (lying, "/nonexistent", "it is not installed here"),
    ]:
        with tried({**before, **more}, after, PATH=path) as (subject, lab):
            seen = ask_tools(subject, lab)
            read = judge(subject.change, subject.context)
        assert seen.answered == (("ruff", why),)
        assert [check.outcome for check in seen.checks] == ["not_checked"]
        for found in settle_findings(read, seen.answered):
            assert found.name != RUFF or f"(Read, not resolved by ruff: {why}.)" in found.detail


# --- answers of tools that are not here: as the real ones printed them ---------------------------

STRICT = {"strict": True, "noImplicitAny": True, "strictNullChecks": True}
ESLINT = {"eqeqeq": [2], "complexity": [2, {"max": 5}]}
COVERAGE = "-- config ---\n  branch: True\n  fail_under: {}\n  run_omit: {}\n  sort: None\n"


def eslint(rules: object, *files: str) -> str:
    return json.dumps({"checked": files, "of": {name: {"rules": rules} for name in files}})


def golangci(*names: str) -> str:
    return json.dumps({"Enabled": [{"name": n, "groups": ["x"]} for n in names], "Disabled": []})


@each(
    ("tool", "kind", "before", "after", "looser"),
    [
        (
            "tsc",
            "json",
            json.dumps({"compilerOptions": STRICT, "files": ["./a.ts"]}),
            json.dumps({"compilerOptions": {**STRICT, "strictNullChecks": False}, "files": []}),
            ("./a.ts no longer checked", "compilerOptions.strictNullChecks was switched off"),
        ),
        (
            "eslint",
            "each",
            eslint(ESLINT, "a.js", "b.js"),
            eslint({"complexity": [2, {"max": 50}]}, "a.js"),
            (
                "b.js no longer checked",
                "rules.complexity[].max was raised from 5 to 50",
                "rules.eqeqeq is gone (was 2)",
            ),
        ),
        (
            "golangci-lint",
            "json",
            golangci("gosec", "gofmt"),
            golangci("gofmt"),
            ("gosec no longer run",),
        ),
        (
            "coverage",
            "coverage",
            COVERAGE.format("90.0", "-none-"),
            COVERAGE.format("80.0", "*/a.py\n            */b.py"),
            ("*/a.py, */b.py left out now", "fail_under was lowered from 90 to 80"),
        ),
        (
            "phpstan",
            "json",
            json.dumps({"level": 8, "paths": ["src"], "checkMissingTypehints": True}),
            json.dumps({"level": 5, "paths": ["src"], "checkMissingTypehints": False}),
            ("checkMissingTypehints was switched off", "level is 5 now (was 8)"),
        ),
    ],
)
def test_answers_are_held_against_each_other(
    tool: str, kind: str, before: str, after: str, looser: tuple[str, ...]
) -> None:
    known = next(each for each in list_tools() if each.name == tool)
    sides = [parse_answer(kind, text, ("",)) for text in (before, after)]
    assert compare_answers(known, *sides).looser == looser
    assert compare_answers(known, sides[0], sides[0]).looser == ()
    assert compare_answers(known, sides[1], sides[0]).looser == ()


@each(
    ("kind", "text"),
    [("json", "[]"), ("json", "{" * 9999), ("each", '{"of": 1}'), ("ruff", "x"), ("coverage", "x")],
)
def test_what_is_no_answer_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError):
        parse_answer(kind, text, ("",))


def test_a_list_of_nothing_hides_no_other() -> None:
    """golangci-lint says null where no formatter is on."""
    answers = [
        parse_answer("json", text, ("",)) for text in (golangci("gosec"), '{"Enabled":null}')
    ]
    assert merge_answers(answers)[""]["Enabled"] == ("gosec",)


def test_too_much_is_not_asked() -> None:
    eslint = next(each for each in list_tools() if each.name == "eslint")
    assert plan_questions(eslint, [f"{n}.js" for n in range(501)], ()) is None


def test_where_nothing_is_checked_nothing_is_withdrawn(tried: Tried) -> None:
    after = {"ruff.toml": 'lint.select = ["E"]\n'}
    read, seen = judged(tried, {"a.txt": "", "ruff.toml": 'lint.select = ["E", "F"]\n'}, after)
    assert read == [RUFF]
    assert [found.name for found in seen.findings] == [RUFF]
    assert seen.answered == (("ruff", "it checks nothing here"),)


def test_what_an_agent_left_answers_nothing(tried: Tried) -> None:
    """A program that no commit brings, in the place of the project's own."""
    before = {**CODE, ".gitignore": ".venv/\n", "ruff.toml": BASE}
    with tried(before, {"ruff.toml": '[lint]\nselect = ["E"]\n'}, PATH=TOOLS) as (subject, lab):
        lie = lab.folder / ".venv/bin/ruff"
        lie.parent.mkdir(parents=True)
        lie.write_text("#!/bin/sh\necho 'linter.rules.enabled = []'\n")
        lie.chmod(0o755)
        seen = ask_tools(subject, lab)
    assert [(found.name, found.level) for found in seen.findings] == [(RUFF, "fail")]
