"""CI and the recipes that it calls: what checks less is reported, what only moves is not."""

from tests.support.judging import Judge
from tests.support.tables import each

LOOSENED = ("linter-loosened", "coverage-loosened", "ci-loosened", "test-skipped")

PACKAGE = '{"name": "shop", "scripts": {"test": "jest --ci"}}'
GITLAB = """\
stages: [test]
lint:
  script:
    - ruff check .
test:
  stage: test
  script:
    - pip install -e .
    - pytest -q --cov-fail-under=80
  rules:
    - if: $CI_MERGE_REQUEST_IID
    - if: $CI_COMMIT_BRANCH == "main"
deploy:
  script: [./deploy.sh]
"""
GITHUB = """\
name: ci
on: [push, pull_request]
jobs:
  test:
    steps:
      - uses: actions/checkout@v4
      - name: Lint
        run: ruff check .
      - run: pytest
  scan:
    steps:
      - uses: github/codeql-action/analyze@v3
"""
MAKEFILE = ".PHONY: test lint\ncheck: lint test\n\ntest: deps\n\tpytest -q\nlint:\n\truff check .\n"
TOX = "[testenv]\ncommands =\n    pytest {posargs}\n    mypy src\n"

WEAKER = [
    (
        ".gitlab-ci.yml",
        GITLAB,
        "ruff check .",
        "ruff check . || true",
        "lint passes whatever happens",
    ),
    (
        ".gitlab-ci.yml",
        GITLAB,
        "ruff check .",
        "ruff check . --exit-zero",
        "lint gained --exit-zero",
    ),
    (".gitlab-ci.yml", GITLAB, "lint:\n", "lint:\n  allow_failure: true\n", "lint may fail"),
    (
        ".gitlab-ci.yml",
        GITLAB,
        "lint:\n  script:\n    - ruff check .\n",
        "",
        "lint no longer runs `ruff check .`",
    ),
    (".gitlab-ci.yml", GITLAB, "pytest -q", 'pytest -q -k "not slow"', "test gained -k"),
    (
        ".gitlab-ci.yml",
        GITLAB,
        "pytest -q",
        "pytest -q tests/unit",
        "test looks at tests/unit only",
    ),
    (".gitlab-ci.yml", GITLAB, "pytest -q --cov-fail-under=80", "echo ok", "test no longer runs"),
    (".gitlab-ci.yml", GITLAB, "=80", "=50", "--cov-fail-under was lowered from 80 to 50"),
    (".gitlab-ci.yml", GITLAB, "    - if: $CI_MERGE_REQUEST_IID\n", "", "test runs less often"),
    (
        ".gitlab-ci.yml",
        GITLAB,
        "  stage: test\n",
        "  stage: test\n  when: manual\n",
        "test may fail: when manual",
    ),
    (
        ".gitlab-ci.yml",
        GITLAB,
        "  stage: test\n",
        "  stage: test\n  retry: 2\n",
        "test is tried again 2 times",
    ),
    (
        ".github/workflows/ci.yml",
        GITHUB,
        "        run: ruff",
        "        continue-on-error: true\n        run: ruff",
        "continue-on-error",
    ),
    (
        ".github/workflows/ci.yml",
        GITHUB,
        "[push, pull_request]",
        "[push]",
        "on pull_request is gone",
    ),
    (
        ".github/workflows/ci.yml",
        GITHUB,
        "      - name: Lint\n        run: ruff check .\n",
        "",
        "no longer runs `ruff check .`",
    ),
    (
        ".github/workflows/ci.yml",
        GITHUB,
        "      - run: pytest",
        "      - run: pytest\n        if: false",
        "if false",
    ),
    (
        ".github/workflows/ci.yml",
        GITHUB,
        "  scan:\n    steps:\n      - uses: github/codeql-action/analyze@v3\n",
        "",
        "no longer runs github/codeql-action/analyze",
    ),
    ("Makefile", MAKEFILE, "\tpytest -q", "\tpytest -q || true", "test passes whatever happens"),
    ("Makefile", MAKEFILE, "\tpytest -q", "\t-pytest -q", "test passes whatever happens"),
    ("Makefile", MAKEFILE, "\tpytest -q", "\t@echo skipped", "test no longer runs `pytest -q`"),
    ("Makefile", MAKEFILE, "lint test\n", "lint\n", "check no longer runs test"),
    ("tox.ini", TOX, "    mypy src\n", "", "testenv no longer runs `mypy src`"),
    ("tox.ini", TOX, "    pytest", "    - pytest", "testenv passes whatever happens"),
    (
        "package.json",
        PACKAGE,
        "jest --ci",
        "jest --ci --passWithNoTests",
        "test gained --passWithNoTests",
    ),
    ("Makefile", "t:\n\tpytest\n\tpytest\n", "\n\tpytest\n\t", "\n\tpytest || true\n\t", "passes"),
    ("Makefile", "t:\n\txo && tsd\n", "tsd", "tsd || true", "t passes whatever happens"),
    ("Makefile", "t:\n\tmeson test -C out\n", "out", "out || true", "passes whatever happens"),
    ("Makefile", "t:\n\tscripts/lint.bash -c\n", "-c", "-c || true", "t passes whatever happens"),
    ("scripts/test.sh", "set -e\ngo test ./...\n", "./...", "./api/...", "looks at ./api/... only"),
    ("scripts/test.sh", "set -e\ngo test -race ./...\n", "-race ", "", "lost -race"),
    (
        "noxfile.py",
        'session.run("pytest", "tests")\n',
        '"tests"',
        '"tests", "--ignore=tests/db"',
        "gained --ignore",
    ),
]


@each(("path", "text", "old", "new", "expected"), WEAKER)
def test_ci_checks_less(
    raised: Judge, path: str, text: str, old: str, new: str, expected: str
) -> None:
    assert old in text
    found = [
        f
        for f in raised({path: text}, {path: text.replace(old, new)})
        if f.name in ("ci-loosened", "coverage-loosened")
    ]
    assert [f.level for f in found] == ["fail"], found
    assert expected in found[0].detail


KEPT = [
    (GITLAB, "ruff check .", "make lint", {"Makefile": MAKEFILE}),
    (GITLAB, "ruff check .", "./ci/lint.sh", {}),
    (GITLAB, "lint:", "style:", {}),
    (GITLAB, "    - pip install -e .\n", "", {}),
    (GITLAB, "pytest -q", "pytest -q -n auto --durations=5", {}),
    (GITLAB, "[./deploy.sh]", "[./deploy.sh]\n  only: [tags]\n  when: manual", {}),
    (GITLAB, "ruff check .", "flake8 .", {}),
    (GITLAB, "=80", "=90", {}),
    (GITLAB, "deploy:", "types:\n  script: [mypy .]\ndeploy:", {}),
    (GITLAB, "stages: [test]", "stages: [test, ship]", {}),
    (GITLAB.replace("pytest", "cargo +stable test"), "+stable ", "", {}),
    (GITLAB.replace("ruff check .", "go tool vet ."), "go tool vet .", "go vet ./...", {}),
    (GITLAB.replace("pytest", 'FLAGS="-a -b" pytest'), 'FLAGS="-a -b" ', "", {}),
    (GITLAB.replace("ruff check .", "git clone x/bats-tests"), "git clone x/bats-tests", "ls", {}),
    (GITLAB.replace("ruff check .", "pre-commit run -a"), "pre-commit", "prek", {}),
    (GITLAB, "ruff check .", "if $FULL; then ruff check -v .; fi", {}),
]


@each(("text", "old", "new", "more"), KEPT)
def test_ci_checks_as_much(
    raised: Judge, text: str, old: str, new: str, more: dict[str, str]
) -> None:
    assert old in text
    path = ".gitlab-ci.yml"
    found = raised({path: text}, {path: text.replace(old, new), **more})
    assert [f for f in found if f.name in LOOSENED] == []


def test_only_to_rules_is_no_change(raised: Judge) -> None:
    old = "test:\n  script: [pytest]\n  only: [merge_requests, main]\n"
    new = (
        "test:\n  script: [pytest]\n  rules:\n"
        "    - if: $CI_PIPELINE_SOURCE == 'merge_request_event'\n"
        "    - if: $CI_COMMIT_BRANCH == 'main'\n"
    )
    assert raised({".gitlab-ci.yml": old}, {".gitlab-ci.yml": new}) == []


def test_a_job_that_moves_to_an_included_file(raised: Judge) -> None:
    whole = "include: ci/lint.yml\nlint:\n  script: [ruff check .]\n"
    after = {
        ".gitlab-ci.yml": "include: ci/lint.yml\n",
        "ci/lint.yml": "lint:\n  script: [ruff check .]\n",
    }
    assert raised({".gitlab-ci.yml": whole}, after) == []


def test_fewer_versions_are_only_told(raised: Judge) -> None:
    text = (
        "on: push\njobs:\n  t:\n    strategy: {matrix: {py: ['3.8', '3.12']}}\n"
        "    steps: [{run: pytest}]\n"
    )
    path = ".github/workflows/t.yml"
    [found] = raised({path: text}, {path: text.replace("'3.8', ", "")})
    assert (found.name, found.level) == ("ci-loosened", "warn")


def test_a_wider_pattern_of_branches_runs_no_less(raised: Judge) -> None:
    text = "on:\n  pull_request:\n    branches: ['*']\njobs: {t: {steps: [{run: pytest}]}}\n"
    path = ".github/workflows/t.yml"
    assert raised({path: text}, {path: text.replace("*", "**")}) == []
    [found] = raised({path: text}, {path: text.replace("*", "main")})
    assert found.name == "ci-loosened"


def test_branches_that_are_pushed_matter_less_than_what_is_proposed(raised: Judge) -> None:
    path, job = ".github/workflows/t.yml", "jobs: {t: {steps: [{run: pytest}]}}\n"
    text = f"on:\n  push:\n    branches: [main, v1]\n  pull_request:\n{job}"
    assert raised({path: text}, {path: text.replace("v1", "stable")}) == []
    alone = text.replace("  pull_request:\n", "")
    [found] = raised({path: alone}, {path: alone.replace("v1", "stable")})
    assert (found.name, found.level) == ("ci-loosened", "fail")


def test_another_default_branch_is_asked_about(raised: Judge) -> None:
    path = ".github/workflows/t.yml"
    text = "on:\n  pull_request:\n    branches: [main]\njobs: {t: {steps: [{run: pytest}]}}\n"
    [found] = raised({path: text}, {path: text.replace("main", "master")})
    assert (found.name, found.level) == ("ci-loosened", "warn")


def test_another_condition_is_asked_about_and_a_new_one_fails(raised: Judge) -> None:
    path = ".github/workflows/t.yml"
    text = "on: push\njobs: {t: {if: inputs.nyc, steps: [{run: pytest}]}}\n"
    [found] = raised({path: text}, {path: text.replace("nyc", "c8")})
    assert (found.name, found.level) == ("ci-loosened", "warn")
    [found] = raised({path: text.replace("if: inputs.nyc, ", "")}, {path: text})
    assert (found.name, found.level) == ("ci-loosened", "fail")


def test_the_condition_of_a_step_that_came_is_asked_about(raised: Judge) -> None:
    path, step = ".github/workflows/t.yml", "{name: %s, if: matrix.py == '%s', run: pytest}"
    text = "on: push\njobs: {t: {steps: [{name: lint, run: ruff check}, %s]}}\n"
    old, more = step % ("old", 3), step % ("new", 4)
    assert raised({path: text % old}, {path: text % old.replace("old", "three")}) == []
    [found] = raised({path: text % old}, {path: text % f"{old}, {more}"})
    assert (found.name, found.level) == ("ci-loosened", "warn")
    seldom = (text % old).replace("name: lint", "name: lint, if: github.actor == 'x'")
    [found] = raised({path: text % old}, {path: seldom})
    assert (found.name, found.level) == ("ci-loosened", "fail")


def test_a_workflow_of_others_that_tests_is_asked_about(raised: Judge) -> None:
    path = ".github/workflows/t.yml"
    text = "on: push\njobs: {t: {%s}}\n"
    shared = "uses: shop/.github/.github/workflows/test.yml@v1"
    [found] = raised({path: text % "steps: [{run: npm test}]"}, {path: text % shared})
    assert (found.name, found.level) == ("ci-loosened", "warn")
    ship = shared.replace("test.yml", "publish.yml")
    [found] = raised({path: text % "steps: [{run: npm test}]"}, {path: text % ship})
    assert (found.name, found.level) == ("ci-loosened", "fail")


def test_a_workflow_that_only_people_start_may_go(raised: Judge) -> None:
    path, text = ".github/workflows/t.yml", "on: %s\njobs: {t: {steps: [{run: pytest}]}}\n"
    assert raised({path: text % "workflow_dispatch"}, {path: None}) == []
    assert raised({path: text % "[workflow_dispatch, push]"}, {path: None}) != []


def test_a_job_of_an_experiment_may_fail(raised: Judge) -> None:
    path, text = ".github/workflows/t.yml", "on: push\njobs: {t: {%s steps: [{run: pytest}]}}\n"
    for value, level in (("${{matrix.next}}", "warn"), ("true", "fail")):
        [found] = raised({path: text % ""}, {path: text % f"continue-on-error: '{value}',"})
        assert (found.name, found.level) == ("ci-loosened", level)


def test_an_environment_of_tox_for_another_version_may_go(raised: Judge) -> None:
    text = "[tox]\nenv_list =\n    3.14-tests\n    pypy3.11-tests\n    lint\n"
    assert raised({"tox.ini": text}, {"tox.ini": text.replace("    pypy3.11-tests\n", "")}) == []
    assert raised({"tox.ini": text}, {"tox.ini": text.replace("    lint\n", "")}) != []
    apart = text.replace("pypy3.11-tests", "3.{10-13}-tests{,-x}")
    together = text.replace("3.14-tests\n    pypy3.11-tests", "3.1{0-4}-tests{,-x}")
    assert raised({"tox.ini": apart}, {"tox.ini": together}) == []


def test_what_installs_checks_nothing(raised: Judge) -> None:
    text = "t:\n\tcomposer require phpspec/phpspec:^7\n\tcomposer test\n"
    gone = text.replace("\tcomposer require phpspec/phpspec:^7\n", "")
    assert raised({"Makefile": text}, {"Makefile": gone}) == []


def test_pytest_has_one_switch_for_all_that_is_strict(raised: Judge) -> None:
    path, section = "pyproject.toml", "[tool.pytest.ini_options]\n"
    old = f'{section}addopts = "-ra --strict-markers"\nxfail_strict = true\n'
    new = '[tool.pytest]\nstrict = %s\naddopts = ["-ra"]\n'
    assert raised({path: old}, {path: new % "true"}) == []
    assert raised({path: old}, {path: new % "false"}) != []


def test_coverage_by_another_tool(raised: Judge) -> None:
    old = {"package.json": '{"nyc": {"exclude": ["**/test/**"]}}'}
    for path, count in (("test", 0), ("src", 1)):
        new = {"package.json": old["package.json"].replace("nyc", "c8").replace("**/test", path)}
        assert len(raised(old, new, "coverage-loosened")) == count


def test_errors_that_a_tool_words_anew(raised: Judge) -> None:
    path, text = "phpstan.neon", "parameters:\n  ignoreErrors:\n    - '#no %s specified#'\n"
    old = {path: text % "return typehint"}
    assert raised(old, {path: text % "return type"}) == []
    assert raised(old, {path: text % "cast at all or a type which is"}) != []


def test_coverage_of_all_files_is_wider_than_of_some(raised: Judge) -> None:
    old = {"setup.cfg": "[coverage:run]\ninclude =\n    a.py\n    b.py\n"}
    assert raised(old, {"setup.cfg": "[coverage:run]\n"}, "coverage-loosened") == []
    fewer = {"setup.cfg": old["setup.cfg"].replace("    b.py\n", "")}
    assert raised(old, fewer, "coverage-loosened") != []


def test_a_service_of_before_is_asked_about(raised: Judge) -> None:
    old, path = {".travis.yml": "script: tox -e py\n"}, ".github/workflows/t.yml"
    text = "on: pull_request\njobs: {t: {steps: [{run: pytest}]}}\n"
    for workflow, level in ((text, "warn"), (text.replace("pytest", "twine upload"), "fail")):
        [found] = raised({**old, path: workflow}, {".travis.yml": None})
        assert (found.name, found.level) == ("ci-loosened", level)


def test_a_phase_that_never_comes(raised: Judge) -> None:
    plugin = "<plugin><artifactId>%s-maven-plugin</artifactId><phase>none</phase></plugin>"
    [found] = raised(
        {"pom.xml": "<x></x>"}, {"pom.xml": f"<x>{plugin % 'jacoco'}</x>"}, "ci-loosened"
    )
    assert found.level == "fail"
    assert (
        raised({"pom.xml": "<x></x>"}, {"pom.xml": f"<x>{plugin % 'moditect'}</x>"}, "ci-loosened")
        == []
    )


def test_a_workflow_may_go_where_another_one_does_the_same(raised: Judge) -> None:
    old, kept = ".github/workflows/old.yml", ".github/workflows/test.yml"
    text = "on: [push, pull_request]\njobs: {t: {steps: [{run: pytest}]}}\n"
    assert raised({old: text, kept: text}, {old: None}) == []
    nightly = text.replace("[push, pull_request]", "schedule")
    for other in (nightly, text.replace("pytest", "ruff check")):
        [found] = raised({old: text, kept: other}, {old: None})
        assert (found.name, found.level) == ("ci-loosened", "fail")


def test_what_starts_a_pipeline_that_checks_nothing_does_not_matter(raised: Judge) -> None:
    text = "on: [push]\njobs: {ship: {steps: [{run: twine upload dist/*}]}}\n"
    path = ".github/workflows/ship.yml"
    assert raised({path: text}, {path: text.replace("push", "release")}) == []
    checking = {path: text.replace("twine upload dist/*", "pytest")}
    assert raised(checking, {path: checking[path].replace("push", "release")}) != []


def test_an_old_version_of_the_language_may_go(raised: Judge) -> None:
    lines = ["mypy --python-version=3.10 src", "mypy --python-version=3.9 src", "ruff check"]
    old = {"Makefile": "lint:\n" + "".join(f"\t{line}\n" for line in lines)}
    assert raised(old, {"Makefile": old["Makefile"].replace(f"\t{lines[1]}\n", "")}) == []
    assert raised(old, {"Makefile": old["Makefile"].replace(f"\t{lines[2]}\n", "")}) != []


def test_warnings_of_a_compiler(raised: Judge) -> None:
    old = {"Makefile": "CFLAGS = -O2 -Wall -Werror\nall:\n\tcc $(CFLAGS) a.c\n"}
    [found] = raised(old, {"Makefile": old["Makefile"].replace(" -Werror", "")})
    assert (found.name, found.level) == ("linter-loosened", "fail")
    assert raised(old, {"Makefile": old["Makefile"].replace("-Wall", "-Wall -Wno-unused")}) != []
    both = {"Makefile": old["Makefile"].replace("all:", "CXXFLAGS = -Wall\nall:")}
    assert raised(both, {"Makefile": both["Makefile"].replace("-O2 -Wall", "-O2")}) != []
    assert raised(old, {"Makefile": old["Makefile"].replace("-Wall", "-Wall -Wextra")}) == []


def test_warnings_of_what_others_wrote(raised: Judge) -> None:
    path, flags = "CMakeLists.txt", "set(CMAKE_CXX_FLAGS -Wall)\n"
    off = "set_property(TARGET %s APPEND PROPERTY COMPILE_OPTIONS -Wno-unused)\n"
    probe = "check_cxx_compiler_flag(-Wno-unused HAVE_NO_UNUSED)\n"
    assert raised({path: flags}, {path: flags + probe + off % "gtest"}) == []
    assert raised({path: flags}, {path: flags + off % "shop"}) != []
    assert raised({"a.c": "\n"}, {path: flags + off % "shop"}) == []


def test_plugins_of_rubocop(raised: Judge) -> None:
    path, both = ".rubocop.yml", "require:\n  - rubocop-rake\n  - rubocop-rspec\n"
    plugins = both.replace("require", "plugins")
    assert raised({path: both}, {path: plugins}) == []
    assert raised({path: both}, {path: plugins.replace("  - rubocop-rake\n", "")}) != []


def test_options_that_move_to_another_file_are_no_loss(raised: Judge) -> None:
    """Each file with options for pytest is a way to call it; one of two that are alike may go."""
    section = "[tool.pytest.ini_options]\n"
    old = {"tox.ini": "[pytest]\naddopts = -ra\n", "pyproject.toml": section + "xfail_strict = 1\n"}
    new = {"tox.ini": "[tox]\n", "pyproject.toml": section + 'addopts = "-ra"\nxfail_strict = 1\n'}
    assert raised(old, new) == []


def test_a_command_for_other_files_is_no_replacement(raised: Judge) -> None:
    path = ".gitlab-ci.yml"
    both = "a:\n  script: [pytest unit/]\nb:\n  script: [pytest whole/, pytest whole/slow -v]\n"
    [found] = raised({path: both}, {path: both.replace("pytest unit/", "true")})
    assert "no longer runs `pytest unit/`" in str(found)
    assert raised({path: both}, {path: both.replace(", pytest whole/slow -v", "")}) == []


def test_a_wider_look_is_no_narrowing(raised: Judge) -> None:
    path = "scripts/test.sh"
    assert raised({path: "go vet .\n"}, {path: "go vet ./...\n"}) == []
    assert raised({path: "go vet ./...\n"}, {path: "go vet ./cmd/...\n"}) != []
