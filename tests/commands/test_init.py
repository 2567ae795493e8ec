"""``nightshift init``: the real command, which tries what it finds and writes what passed."""

import io
import signal
import stat
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitlab_nightshift import __version__
from gitlab_nightshift.commands import init
from gitlab_nightshift.onboarding.project_files import DASHBOARD, TEMPLATE
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from tests.support.trees import assert_same, wait_for, whole_tree
from tests.support.world import Done, World, ended, git, world

TEST = "test:\n\tpython3 -c 'import shop'\n"
JOBS = """\
# ours, and kept
stages: [check]
unit:
  stage: check
  image: python:3.12
  script: [make test]
deploy: {stage: check, script: [make deploy], rules: [{if: $CI_COMMIT_TAG}]}
"""
OUTSIDE_CI = {"GITLAB_CI": "", "CI_PIPELINE_ID": ""}
FILES = {"Makefile": TEST, "shop.py": "PRICE = 1\n", ".gitlab-ci.yml": JOBS}


@dataclass(frozen=True)
class SetUp:
    """A project that ``init`` has set up."""

    shop: World
    done: Done

    def read(self, name: str) -> str:
        return (self.shop.checkout / name).read_text()


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    files = {**FILES, "CODEOWNERS": "* @rita\n"}
    with world(tmp_path_factory.mktemp("set-up"), files=files, config="") as shop:
        shown = shop.nightshift("init", "--dry-run")
        assert shown.exit_status == 0, shown.stderr
        assert git(shop.checkout, "status", "--porcelain") == "", "a dry run writes nothing"
        yield SetUp(shop, shop.nightshift("init"))


def test_the_settings_have_the_command_that_passed(set_up: SetUp) -> None:
    assert "tried        make test: passed in " in set_up.done.stdout
    settings = set_up.read("nightshift.yaml")
    assert '\nverify_commands:\n  - "make test" # passed in ' in settings
    assert "\nreviewer: code_owners\n" in settings
    assert set_up.shop.nightshift("config", "show", **OUTSIDE_CI).exit_status == 0


def test_the_include_is_added_below_the_projects_jobs(set_up: SetUp) -> None:
    pipeline = set_up.read(".gitlab-ci.yml")
    assert pipeline.startswith(JOBS)
    assert '    image: "python:3.12" # as in your job unit\n' in pipeline[len(JOBS) :]
    assert '    stage: "check"\n' in pipeline
    rehearse = "rehearse: true # adds a job to merge requests that change the settings"
    assert f"\n      {rehearse}" in pipeline
    assert "project: acme/gitlab-nightshift\n" in pipeline
    changed = git(set_up.shop.checkout, "status", "--porcelain")
    assert changed == " M .gitlab-ci.yml\n?? nightshift.yaml\n"


def test_other_jobs_of_a_nights_pipeline_are_named(set_up: SetUp) -> None:
    assert "these jobs run at night too: unit; to keep one out" in set_up.done.stdout
    assert "rehearsal    the job `nightshift:rehearse` shows, in each" in set_up.done.stdout


def test_three_jobs_are_recommended_until_the_project_has_them(set_up: SetUp) -> None:
    recommendation = "safer are three, which keep these apart: the input `shape: three-jobs`"
    assert recommendation in set_up.done.stdout
    pipeline = set_up.shop.checkout / ".gitlab-ci.yml"
    before = pipeline.read_text()
    pipeline.write_text(before.replace("    inputs:\n", "    inputs:\n      shape: three-jobs\n"))
    again = set_up.shop.nightshift("init", **OUTSIDE_CI)
    pipeline.write_text(before)
    assert (again.exit_status, recommendation in again.stdout) == (0, False)


def test_a_second_time_changes_nothing(set_up: SetUp) -> None:
    before = set_up.read(".gitlab-ci.yml"), set_up.read("nightshift.yaml")
    again = set_up.shop.nightshift("init", **OUTSIDE_CI)
    assert "nightshift.yaml exists: left as it is" in again.stdout
    assert "unchanged    .gitlab-ci.yml" in again.stdout
    assert (set_up.read(".gitlab-ci.yml"), set_up.read("nightshift.yaml")) == before


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("earlier", [False, True])
def test_an_interrupted_dry_run_writes_nothing(
    tmp_path: Path, sent: signal.Signals, *, earlier: bool
) -> None:
    slow = 'test:\n\tpython3 -c \'open("started", "w")\' && sleep 600\n'
    with world(tmp_path, files={**FILES, "Makefile": slow}, config="") as shop:
        if earlier:
            (shop.checkout / "nightshift").mkdir()
            (shop.checkout / "nightshift/result.json").write_text("{}")
        before = whole_tree(shop.checkout)
        process = shop.start("init", "--dry-run")
        started = shop.checkout / "started"
        wait_for(lambda: started.exists() or process.poll() is not None, "the tests to start")
        process.send_signal(sent)
        assert ended(process).exit_status == 128 + sent
        assert_same(whole_tree(shop.checkout), before)


def test_a_dry_run_keeps_the_results_of_an_earlier_run(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES, config="") as shop:
        (shop.checkout / "nightshift").mkdir()
        (shop.checkout / "nightshift/result.json").write_text("{}")
        before = whole_tree(shop.checkout)
        assert shop.nightshift("init", "--dry-run").exit_status == 0
        assert_same(whole_tree(shop.checkout), before)


def test_a_failing_command_is_commented_out(tmp_path: Path) -> None:
    failing = {**FILES, "Makefile": "test:\n\tpython3 -c 'import shop; shop.lost'\n"}
    with world(tmp_path, files=failing, config="") as shop:
        done = shop.nightshift("init")
        assert done.exit_status == 0
        settings = (shop.checkout / "nightshift.yaml").read_text()
        assert '\n# verify_commands:\n#   - "make test" # ' in settings
        assert "\n             AttributeError: module 'shop' has no attribute" in done.stdout
        assert "look at      no command proves a change yet" in done.stdout
        mode = stat.S_IMODE((shop.checkout / ".gitlab-ci.yml").stat().st_mode)
        assert mode & stat.S_IRUSR and not (shop.checkout / "nightshift").exists()


def test_a_missing_dependency_is_named_and_a_second_run_tries_again(tmp_path: Path) -> None:
    test = "import unittest, prices\n\nclass T(unittest.TestCase):\n    def test_a(self): prices\n"
    files = {"requirements.txt": "prices\n", "test_shop.py": test, ".gitignore": ".venv/\n"}
    install = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
    with world(tmp_path, files=files, config="") as shop:
        done = shop.nightshift("init")
        here = ".venv/bin/python -m unittest (run here as python3 -m unittest)"
        assert f"{here}: cannot run here: the dependency prices is not installed\n" in done.stdout
        assert f"install      what the tests need (`{install}`), then run this" in done.stdout
        pipeline = (shop.checkout / ".gitlab-ci.yml").read_text()
        fetch = f'extra_before: "{install}" # from requirements.txt; not tried yet\n'
        assert fetch in pipeline

        venv.create(shop.checkout / ".venv", symlinks=True)
        [packages] = (shop.checkout / ".venv/lib").glob("python*/site-packages")
        (packages / "prices.py").write_text("")
        again = shop.nightshift("init", **OUTSIDE_CI)
        assert "nightshift.yaml has no active test command yet: trying again\n" in again.stdout
        assert "install " not in again.stdout
        settings = (shop.checkout / "nightshift.yaml").read_text()
        assert '\nverify_commands:\n  - ".venv/bin/python -m unittest" # passed' in settings
        assert (shop.checkout / ".gitlab-ci.yml").read_text() == pipeline


def test_a_command_that_finds_no_test_is_commented_out(tmp_path: Path) -> None:
    files = {"test_shop.py": "def test_a():\n    assert 1 + 1 == 2\n"}
    with world(tmp_path, files=files, config="") as shop:
        done = shop.nightshift("init")
        assert "python3 -m unittest: found no test\n" in done.stdout
        assert "\nverify_commands" not in (shop.checkout / "nightshift.yaml").read_text()


def test_the_subprojects_of_a_monorepo_are_named(tmp_path: Path) -> None:
    parts = {"api/go.mod": "module api\n", "web/package.json": "{}\n", "README.md": "Hello\n"}
    with world(tmp_path, files=parts, config="") as shop:
        done = shop.nightshift("init", "--dry-run")
        assert (
            "api, web have builds of their own: name a test command for each in verify_commands"
            in done.stdout
        )


def test_an_older_version_is_updated(tmp_path: Path) -> None:
    older = (
        "include:\n  - project: acme/gitlab-nightshift\n    ref: v0.0.9 # pinned\n"
        f"    file: {TEMPLATE}\n    inputs: {{version: 0.0.9}}\n"
    )
    with world(tmp_path, files={**FILES, ".gitlab-ci.yml": older}) as shop:
        done = shop.nightshift("init")
        assert done.exit_status == 0, done.stderr
        assert f".gitlab-ci.yml: raising the include from v0.0.9 to v{__version__}\n" in done.stdout
        assert f"pins 0.0.9: set it to {__version__}\n" in done.stdout
        pipeline = (shop.checkout / ".gitlab-ci.yml").read_text()
        assert pipeline == older.replace("ref: v0.0.9", f"ref: v{__version__}")


def test_an_obstacle_is_one_line(tmp_path: Path) -> None:
    for number, (text, args, why) in enumerate(
        [
            ("a: [\n", (), ".gitlab-ci.yml is not valid YAML at line 2: fix it first"),
            (
                "workflow: {rules: [{if: $CI_COMMIT_TAG}]}\n",
                (),
                ".gitlab-ci.yml: its workflow rules keep scheduled pipelines from starting: add",
            ),
            ("", ("--source", "no project"), "--source: no project is not a project's path"),
            ("", ("--model-key", "X"), "--model-key stores the key in GitLab: add --gitlab or"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with world(folder, files={**FILES, ".gitlab-ci.yml": text}) as shop:
            done = shop.nightshift("init", *args)
            assert done.exit_status == 2
            assert why in done.stderr and done.stderr.count("\n") == 1
            assert done.stdout == "", "the error comes before the tests"
            assert git(shop.checkout, "status", "--porcelain") == ""


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A repository could otherwise overwrite any file of the user of init."""
    for number, name in enumerate((".gitlab-ci.yml", "nightshift.yaml")):
        folder = tmp_path / str(number)
        folder.mkdir()
        files = {each: text for each, text in FILES.items() if each != name}
        with world(folder, files=files, config="") as shop:
            target = folder / "private.txt"
            target.write_text("# kept\n")
            (shop.checkout / name).symlink_to(target)
            done = shop.nightshift("init", **OUTSIDE_CI)
            assert done.exit_status == 2
            assert f"{name} is a link or a folder: replace it with a file first\n" in done.stderr
            assert target.read_text() == "# kept\n"
            (shop.checkout / name).unlink()
            (shop.checkout / name).mkdir()
            assert shop.nightshift("init", **OUTSIDE_CI).exit_status == 2


def test_an_empty_project_and_one_without_a_pipeline(tmp_path: Path) -> None:
    with world(tmp_path, files={"README.md": "Hello\n"}, config="", commits=1) as shop:
        done = shop.nightshift("init", CI_PROJECT_PATH="", CI_PROJECT_URL="")
        assert done.exit_status == 0, done.stderr
        assert "found no command that tests this project" in done.stdout
        pipeline = (shop.checkout / ".gitlab-ci.yml").read_text()
        assert pipeline.startswith("# The night shift: ") and pipeline.count(": true #") == 1

        git(shop.checkout, "checkout", "-q", "--orphan", "none")
        git(shop.checkout, "rm", "-rfq", "--cached", ".")
        (shop.checkout / "nightshift.yaml").unlink()
        for command, where in (("init", "stderr"), ("doctor", "stdout")):
            args = ("--merge-request",) if command == "init" else ()
            done = shop.nightshift(command, *args)
            assert done.exit_status == 2
            assert "has no commit yet: make a first commit\n" in getattr(done, where)
        assert shop.nightshift("init", "--dry-run").exit_status == 0


@pytest.mark.parametrize(
    ("options", "line"),
    [((), "\n# log_issue: auto\n"), (("--dashboard",), "\nlog_issue: auto\n")],
)
def test_the_dashboard_is_explained_and_can_be_enabled(
    tmp_path: Path, options: tuple[str, ...], line: str
) -> None:
    with world(tmp_path, files=FILES, config="") as shop:
        done = shop.nightshift("init", *options)
        settings = (shop.checkout / "nightshift.yaml").read_text()
        assert f"# {DASHBOARD}{line}" in settings
        note = f"dashboard    off (log_issue). {DASHBOARD} To switch it on: --dashboard\n"
        assert (note in done.stdout) != bool(options), done.stdout
        assert load_settings({}, ConfigFile("nightshift.yaml", settings)).log_issue == (
            "auto" if options else "off"
        )


@pytest.mark.parametrize(
    ("typed", "on"), [("y\n", True), ("Yes\n", True), ("\n", False), ("", False)]
)
def test_yes_or_no_is_asked_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, typed: str, *, on: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert init._ask_yes_no("Well?") is False, "there is no terminal"
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert init._ask_yes_no("Well?") is on
