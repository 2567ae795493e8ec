"""``nightshift check`` on real repositories, none of which it may change."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.cli import run
from gitlab_nightshift.commands.change_check import (
    Allowance,
    CheckRequest,
    Judgement,
    apply_allowances,
    check,
    read_allowances,
    read_description_allowances,
)
from gitlab_nightshift.commands.check_formats import as_json, as_text
from gitlab_nightshift.demo.standin_state import StandinMergeRequest, User
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.sandbox import privilege_drop
from gitlab_nightshift.settings.model import Settings
from tests.repository.tools import commit, git, repository, write
from tests.support.scripts import ScriptCase, read_cases, run_script
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject
from tests.support.tables import each
from tests.support.trees import assert_same, whole_tree

CART = "def total(items):\n    return sum(item.price for item in items)\n"
TESTS = (
    "from cart import total\n\n\ndef test_total():\n    assert total([]) == 0\n\n\n"
    "def test_one(item):\n    assert total([item]) == item.price\n"
)
FILES = {"cart.py": CART, "tests/test_cart.py": TESTS, "README.md": "# Cart\n"}
SKIPPED = TESTS.replace("def test_one", "@pytest.mark.skip\ndef test_one")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "shop"
    repository(root, FILES)
    write(root, "README.md", "# Cart\n\nTotals.\n")
    commit(root)
    return root


@pytest.fixture
def shop(template: Path, tmp_path: Path) -> Path:
    """Two commits: the first holds FILES, the second changes the README."""
    root = tmp_path / "shop"
    shutil.copytree(template, root, symlinks=True)
    git(root, "update-index", "-q", "--refresh")
    return root


def environment(root: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(root.parent)}


Ran = Callable[..., tuple[int, str, str]]


def checked(
    root: Path, env: Mapping[str, str] | None = None, *, inside: str = "", **asked: Any
) -> Judgement:
    """The judgement; the checkout with its repository is the same afterwards."""
    before = whole_tree(root)
    found = check(CheckRequest(root / inside, {**environment(root), **(env or {})}, **asked))
    assert_same(whole_tree(root), before)
    return found


def names(found: Judgement) -> list[tuple[str, str]]:
    return [(each.name, each.file) for each in found.findings]


def head(root: Path, revision: str = "HEAD") -> str:
    return git(root, "rev-parse", revision)


# --- what is compared with what -------------------------------------------------------------------

COMMANDS = r"""
commit() { git add -A && git commit -q --allow-empty -m more; }
logo() { printf '\0' > "${1:-logo.png}"; }
skip() { sed -i 's/^def test_one/@pytest.mark.skip\n&/' tests/test_cart.py; }
add_code() { mkdir sub; echo X = 1 > sub/other.py; }
later() { echo "# Later" > README.md; }
silence() { sed -i 's/items)$/items)  # noqa: C416/' cart.py; commit; }
set_flag() { printf 'policy:\n  flags:\n    binary-file: %s\n' "$1" > nightshift.yaml; }
branch_and_merge() {
  git checkout -q -b feature; logo; commit; git checkout -q main; logo main.png; commit
  git merge -q --no-ff -m merge feature
}
branch_beside() {
  git branch feature; logo; commit; git checkout -q feature; later; commit
}
"""
GIVEN: dict[str, Callable[[str], Any]] = {
    "staged": bool,
    "recent": int,
    "selected": lambda text: tuple(text.split(",")),
}


@pytest.mark.parametrize("case", read_cases(Path(__file__).with_name("checked.cases")), ids=repr)
def test_what_is_judged_is(shop: Path, case: ScriptCase) -> None:
    run_script(shop, COMMANDS + case.script)
    asked: dict[str, Any] = {k: GIVEN.get(k, str)(text) for k, text in case.asked.items()}
    against = asked.pop("against", "")
    env = {key: asked.pop(key) for key in case.asked if key.isupper()}
    env |= {key: head(shop, revision) for key, revision in env.items() if key.endswith("_SHA")}
    found = checked(shop, env, **asked)
    told = [f"{each.level} {each.name} {each.file}" for each in found.findings]
    assert sorted(told) == case.expected
    assert found.failed == any(each.startswith("fail ") for each in told)
    assert not against or found.base == head(shop, against)
    assert found.commit == (head(shop, asked["commit"]) if "commit" in asked else None)


def test_in_a_hook_the_commit_at_hand_is_judged(shop: Path) -> None:
    """``git commit FILE`` and ``git commit -a`` give a hook an index of their own."""
    hook = write(shop, ".git/hooks/pre-commit", mode=0o755)
    call = f"{sys.executable} -m gitlab_nightshift check --staged > ../said"
    hook.write_text(f"#!/bin/sh\n{call}\n")
    write(shop, "README.md", "# New\n")
    write(shop, "tests/test_cart.py", SKIPPED)
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x"]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run([*run, "README.md"], cwd=shop, env=env, capture_output=True, check=False)
    assert (done.returncode, (shop.parent / "said").read_text()[:12]) == (0, "No red flags")
    done = subprocess.run([*run, "-a"], cwd=shop, env=env, capture_output=True, check=False)
    assert done.returncode == 1
    assert "test-skipped" in (shop.parent / "said").read_text()


def test_a_shallow_clone_says_what_is_missing(shop: Path, tmp_path: Path) -> None:
    first = head(shop)
    write(shop, "README.md", "# Later\n")
    commit(shop)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop}", "shallow")
    calls: list[dict[str, Any]] = [{}, {"commit": "HEAD"}, {"base": first}]
    for asked in calls:
        with pytest.raises(NightshiftError, match="GIT_DEPTH") as error:
            checked(tmp_path / "shallow", **asked)
        assert (error.value.exit_status, error.value.message.count("\n")) == (2, 0)
    with pytest.raises(NightshiftError, match="GIT_DEPTH"):
        checked(tmp_path / "shallow", {"CI_MERGE_REQUEST_DIFF_BASE_SHA": first})
    write(tmp_path / "shallow", "logo.png", b"\0")
    assert names(checked(tmp_path / "shallow")) == [("binary-file", "logo.png")]


def test_a_linked_worktree(shop: Path) -> None:
    git(shop, "worktree", "add", "-q", "../linked", "-b", "linked")
    linked = shop.parent / "linked"
    write(linked, "logo.png", b"\0")
    before = whole_tree(shop)
    assert names(checked(linked)) == [("binary-file", "logo.png")]
    assert_same(whole_tree(shop), before)


def test_nothing_of_the_repository_is_run(shop: Path) -> None:
    trap = write(shop.parent, "trap", f"#!/bin/sh\ntouch {shop.parent}/ran\ncat\n", 0o755)
    write(shop, ".git/hooks/post-index-change", trap.read_text(), 0o755)
    write(shop, ".gitattributes", "*.py filter=evil diff=evil\n")
    settings = {
        "core.fsmonitor": str(trap),
        "core.hooksPath": str(shop / ".git/hooks"),
        "filter.evil.clean": str(trap),
        "diff.evil.textconv": str(trap),
        "diff.external": str(trap),
    }
    for key, value in settings.items():
        git(shop, "config", key, value)
    write(shop, "cart.py", CART + "# more\n")
    checked(shop)
    assert not (shop.parent / "ran").exists()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"base": "nonsense"}, "'nonsense' is not a commit here"),
        ({"commit": "--all"}, "'--all' is not a commit here"),
        ({"commit": "HEAD:README.md"}, "is not a commit here"),
        ({"category": "speed"}, "--category: no category 'speed'; known are tests,"),
    ],
)
def test_mistakes_are_one_line(shop: Path, asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(NightshiftError) as error:
        checked(shop, **asked)
    assert complaint in error.value.message
    assert (error.value.exit_status, error.value.message.count("\n")) == (2, 0)


def test_no_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(NightshiftError, match="is a bare repository: run in a checkout"):
        check(CheckRequest(tmp_path / "bare.git", environment(tmp_path)))
    with pytest.raises(NightshiftError, match="is not in a git checkout"):
        check(CheckRequest(tmp_path, environment(tmp_path)))


def test_no_git_of_the_checkout_is_run_even_from_a_folder_in_it(shop: Path) -> None:
    """An agent may have written it, and PATH may name its folder."""
    seen, real = shop.parent / "seen", shutil.which("git")
    write(shop, "bin/git", f'#!/bin/sh\ntouch {seen}\nexec {real} "$@"\n')
    (shop / "bin/git").chmod(0o755)
    write(shop, "src/a.py", "A = 1\n")
    env = environment(shop) | {"PATH": f"{shop}/bin:{os.environ['PATH']}"}
    check(CheckRequest(shop / "src", env))
    assert not seen.exists()
    subprocess.run(["git", "version"], env=env, check=True, capture_output=True)
    assert seen.exists(), "the control"


def test_a_damaged_repository_is_no_defect(shop: Path) -> None:
    blob = head(shop, "HEAD:cart.py")
    write(shop, "cart.py", CART + "x = 1\n")
    (shop / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(NightshiftError, match="cannot be read"):
        check(CheckRequest(shop, environment(shop)))


def test_an_unknown_flag_in_the_settings(shop: Path) -> None:
    write(shop, "nightshift.yaml", "policy:\n  flags:\n    binary-files: off\n")
    commit(shop)
    with pytest.raises(NightshiftError, match=r"nightshift.yaml:\d+: .*did you mean binary-file\?"):
        checked(shop, commit="HEAD", base="HEAD")


# --- what is printed ------------------------------------------------------------------------------


@pytest.fixture
def bad(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(shop, "tests/test_cart.py", SKIPPED)
    write(shop, "logo.png", b"\0")
    monkeypatch.chdir(shop)
    return shop


def test_people_see_place_level_flag_reason_and_counts(bad: Path) -> None:
    text = as_text(checked(bad), colour=False)
    assert "\nlogo.png  note  binary-file  A binary file" in f"\n{text}"
    assert "tests/test_cart.py:8  fail  test-skipped  " in text
    assert "  test-skipped  A test that is not run finds nothing." in text
    assert text.endswith(f"1 fail, 0 warn, 1 note (the working tree against {head(bad)[:12]}).")
    assert "\033[31mfail\033[0m" in as_text(checked(bad), colour=True)


def test_a_note_is_told_once_a_file_and_counts_for_nothing(bad: Path, ran: Ran) -> None:
    git(bad, "checkout", "-q", "--", ".")
    (bad / "logo.png").unlink()
    write(bad, "pyproject.toml", "[tool.ruff]\nline-length = 90\n\n[tool.mypy]\nstrict = true\n")
    status, out, err = ran()
    assert (status, err) == (0, "")
    told = "Tool settings differ: tool.ruff.line-length, tool.mypy.strict."
    assert f"pyproject.toml:1  note  tool-settings  {told}\n" in out
    assert out.rstrip().endswith(
        f"0 fail, 0 warn, 1 note (the working tree against {head(bad)[:12]})."
    )
    assert ran("--category", "tests")[0] == 8, "a night does not touch them"


def test_nothing_found_is_one_line(shop: Path) -> None:
    text = as_text(checked(shop, commit="HEAD"), colour=False)
    assert text == f"No red flags ({head(shop)[:12]} against {head(shop, 'HEAD^')[:12]})."


def test_json_for_programs(bad: Path) -> None:
    whole = json.loads(as_json(checked(bad)))
    assert whole.keys() == {"flags", "base", "commit", "ran"}
    assert (whole["base"], whole["commit"], whole["ran"]) == (head(bad), None, False)
    assert {"name": "binary-file", "level": "note", "file": "logo.png", "line": 0} in [
        {key: flag[key] for key in flag if key != "detail"} for flag in whole["flags"]
    ]


def test_no_secret_of_the_job_is_printed(shop: Path) -> None:
    write(shop, "pyproject.toml", "[tool.ruff]\ns3cr3t-Value-of-ci = 1\n")
    assert "s3cr3t" in as_json(checked(shop))
    found = checked(shop, {"GITLAB_TOKEN": "s3cr3t-Value-of-ci"})
    assert names(found) == [("tool-settings", "pyproject.toml")]
    assert "s3cr3t" not in as_json(found)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ran:
    for name in [name for name in os.environ if name.startswith(("CI_", "NIGHTSHIFT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(privilege_drop, "restrict_to", lambda _rights: None)  # it would be for good

    def called(*args: str) -> tuple[int, str, str]:
        status = run(["check", *args], os.environ)
        out, err = capsys.readouterr()
        return status, out, err

    return called


def test_exit_status(bad: Path, ran: Ran) -> None:
    assert ran()[0] == 8
    assert ran("HEAD")[0] == 0
    status, out, _ = ran("--json")
    assert (status, len(json.loads(out)["flags"])) == (8, 2)
    status, out, err = ran("--base", "nonsense")
    assert (status, out) == (2, "")
    assert err.startswith("nightshift: E_CONFIG: 'nonsense'")


def test_a_kernel_that_confines_nothing_is_told(
    bad: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_rights: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(privilege_drop, "restrict_to", refuse)
    status, _, err = ran("HEAD")
    assert (status, err) == (
        0,
        "nightshift: warning: this process is not confined: Invalid argument\n",
    )


def test_options_reach_the_judgement(bad: Path, ran: Ran) -> None:
    _, out, _ = ran("HEAD", "-C", "tests", "--recent", "3", "--category", "docs", "--json")
    assert json.loads(out)["commit"] == head(bad)
    _, out, _ = ran("--selected", "tests/test_cart.py", "logo.png", "--json")
    assert "outside-selection" not in {flag["name"] for flag in json.loads(out)["flags"]}


def test_what_a_commit_says_to_a_finding_stands_beside_it(shop: Path) -> None:
    write(shop, "tests/test_cart.py", SKIPPED)
    git(shop, "add", "-A")
    message = "Skip it\n\nnightshift: allow test-skipped because prices change on Monday\n"
    git(shop, "commit", "-q", "-m", message)
    [found] = check(CheckRequest(shop, environment(shop), "HEAD")).findings
    assert (found.name, found.level) == ("test-skipped", "fail")
    assert "Allowed because prices change on Monday (commit " in found.detail
    [judged] = check(CheckRequest(shop, environment(shop), "HEAD", category="tests")).findings
    assert "Allowed" not in judged.detail


def test_a_flag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--explain", "test-deleted"], {}) == 0
    said = capsys.readouterr().out
    assert "Nothing tests this behaviour any more." in said
    assert "nightshift: allow test-deleted because" in said
    assert "It is only a warning if product code, dependencies or more" in said
    assert run(["check", "--explain", "all"], {}) == 0
    assert "mutants-survive" in capsys.readouterr().out
    assert run(["check", "--explain", "test-delete"], {}) == 2
    assert "did you mean test-deleted?" in capsys.readouterr().err


TOKEN = "glpat-secret-token-0001"
LINE = "nightshift: allow test-deleted because the importer is gone"
FOUND = Finding("test-deleted", "fail", "tests/test_import.py", 3, "test_import is gone.")


@each(
    "text, flags",
    [
        (LINE, ["test-deleted"]),
        (f"Remove it\n\n- {LINE}\n> {LINE}\n", ["test-deleted", "test-deleted"]),
        ("nightshift: allow test-deleted", []),
        ("nightshift: allow test-deleted because ", []),
        (f"we do not write {LINE}", []),
    ],
)
def test_lines_are_read(text: str, flags: list[str]) -> None:
    assert [each.flag for each in read_allowances(text, "commit 1")] == flags


def test_a_reason_is_short_and_steers_no_terminal() -> None:
    [said] = read_allowances(f"{LINE} \x1b[2J\u202e{'x' * 999}", "commit 1")
    assert said.reason.isprintable()
    assert len(said.reason) == 200


@each("confirmed, level", [(True, "warn"), (False, "fail")])
def test_only_a_confirmed_line_lowers_a_finding(confirmed: bool, level: str) -> None:
    other = Finding("test-skipped", "fail", "tests/test_import.py", 9, "A test is skipped.")
    said = Allowance("test-deleted", "it is meant", "commit 1", confirmed)
    first, second = apply_allowances([FOUND, other], [said])
    assert (first.level, second) == (level, other)
    assert "Allowed because it is meant (commit 1" in first.detail
    assert ("not confirmed" in first.detail) is not confirmed


@dataclass
class Scene:
    gitlab: FullStandin
    project: FullProject
    author: User

    def read(self, branch: str = "remove-importer", **env: str) -> list[Allowance]:
        """What is read of a merge request that the author opened from this branch."""
        request = StandinMergeRequest(
            id=1,
            iid=1,
            web_url=f"{self.gitlab.url}/team/app/-/merge_requests/1",
            title="Remove",
            author=self.author,
            source_branch=branch,
            target_branch="main",
            description=LINE,
        )
        self.project.merge_requests[:] = [request]
        job = {
            "CI_MERGE_REQUEST_DESCRIPTION": LINE,
            "CI_MERGE_REQUEST_IID": str(request.iid),
            "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "remove-importer",
            "CI_PROJECT_ID": str(self.project.id),
            "CI_SERVER_URL": self.gitlab.url,
            "GITLAB_TOKEN": TOKEN,
        }
        return list(read_description_allowances({**job, **env}, Settings()))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with FullStandin(tmp_path / "gitlab") as gitlab:
        gitlab.add_token(TOKEN, gitlab.add_user("reader", "Reader"))
        project = gitlab.add_project("team/app")
        yield Scene(gitlab, project, gitlab.add_user("ada", "Ada"))


@each("level, confirmed", [(30, True), (50, True), (20, False), (0, False)])
def test_a_developers_description_counts(scene: Scene, level: int, confirmed: bool) -> None:
    scene.project.members[scene.author.id] = level
    assert [each.confirmed for each in scene.read()] == [confirmed]


def test_a_bot_confirms_nothing(scene: Scene) -> None:
    scene.author = scene.gitlab.add_user("night-bot", "Night Shift", bot=True)
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read()] == [False]


@each("branch", ["night-shift/tests", "nightshift/4711"])
def test_a_nights_branch_confirms_nothing_whatever_the_job_says(scene: Scene, branch: str) -> None:
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read(branch)] == [False]
    assert scene.read(branch, CI_MERGE_REQUEST_SOURCE_BRANCH_NAME=branch) == []


@each(
    "env",
    [
        {"GITLAB_TOKEN": ""},
        {"GITLAB_TOKEN": "glpat-unknown"},
        {"CI_MERGE_REQUEST_IID": "1/../2"},
        {"CI_MERGE_REQUEST_IID": "9" * 5000},
    ],
)
def test_without_an_answer_a_line_is_shown_alone(scene: Scene, env: dict[str, str]) -> None:
    scene.project.members[scene.author.id] = 40
    assert [each.confirmed for each in scene.read(**env)] == [False]
