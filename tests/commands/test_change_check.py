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
from gitlab_nightshift.commands import kept_command
from gitlab_nightshift.commands.change_check import (
    Allowance,
    CheckRequest,
    Judgement,
    apply_allowances,
    check,
    read_allowances,
    read_description,
)
from gitlab_nightshift.commands.check_formats import as_json, as_text
from gitlab_nightshift.demo.standin_state import StandinMergeRequest, User
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.settings.model import Settings
from tests.repository.tools import commit, git, link, repository, write
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


def checked(root: Path, env: Mapping[str, str] | None = None, **asked: Any) -> Judgement:
    """The judgement; the checkout with its repository is the same afterwards."""
    before = whole_tree(root)
    found = check(CheckRequest(root, {**environment(root), **(env or {})}, **asked))
    assert_same(whole_tree(root), before)
    return found


def names(found: Judgement) -> list[tuple[str, str]]:
    return [(each.name, each.file) for each in found.findings]


def head(root: Path, revision: str = "HEAD") -> str:
    return git(root, "rev-parse", revision)


# --- what is compared -----------------------------------------------------------------------------


def test_changed_and_new_files_against_head(shop: Path) -> None:
    write(shop, "tests/test_cart.py", SKIPPED)
    write(shop, "logo.png", b"\x89PNG\0")
    found = checked(shop)
    assert set(names(found)) == {
        ("test-skipped", "tests/test_cart.py"),
        ("binary-file", "logo.png"),
    }
    assert (found.base, found.commit) == (head(shop), None)


def test_staged_changes_count_and_ignored_files_do_not(shop: Path) -> None:
    write(shop, ".gitignore", "*.bin\n")
    write(shop, "a.bin", b"\0")
    write(shop, "b.dat", b"\0")
    git(shop, "add", "b.dat")
    assert names(checked(shop)) == [("binary-file", "b.dat")]


@pytest.mark.parametrize("place", [".config/git/ignore", "mine"])
def test_the_users_own_ignores_count(shop: Path, place: str) -> None:
    write(shop.parent, place, ".DS_Store\n")
    if place == "mine":
        write(shop.parent, ".gitconfig", f"[core]\n\texcludesFile = {shop.parent / place}\n")
    write(shop, ".DS_Store", b"\0")
    assert names(checked(shop)) == []


def test_a_deleted_file(shop: Path) -> None:
    (shop / "tests/test_cart.py").unlink()
    assert ("test-deleted", "tests/test_cart.py") in names(checked(shop))


def test_a_clean_tree_is_held_against_the_commit_before(shop: Path) -> None:
    write(shop, "logo.png", b"\0")
    commit(shop)
    found = checked(shop)
    assert (names(found), found.base) == ([("binary-file", "logo.png")], head(shop, "HEAD^"))


def test_a_commit_against_its_first_parent(shop: Path) -> None:
    write(shop, "logo.png", b"\0")
    bad = commit(shop)
    write(shop, "README.md", "# Later\n")
    commit(shop)
    write(shop, "dirty.png", b"\0")
    found = checked(shop, commit=bad)
    assert (names(found), found.commit) == ([("binary-file", "logo.png")], bad)
    assert names(checked(shop, commit="HEAD")) == []


def test_a_merge_counts_by_what_it_brings_to_its_first_parent(shop: Path) -> None:
    git(shop, "checkout", "-q", "-b", "feature")
    write(shop, "logo.png", b"\0")
    commit(shop)
    git(shop, "checkout", "-q", "main")
    write(shop, "README.md", "# Main\n")
    commit(shop)
    git(shop, "merge", "-q", "--no-ff", "-m", "merge", "feature")
    assert names(checked(shop, commit="HEAD")) == [("binary-file", "logo.png")]


def test_a_base_that_moved_on_is_left_where_the_branch_began(shop: Path) -> None:
    git(shop, "checkout", "-q", "-b", "feature")
    git(shop, "checkout", "-q", "main")
    write(shop, "tests/test_more.py", "def test_more():\n    assert 1 + 1 == 2\n")
    commit(shop)
    git(shop, "checkout", "-q", "feature")
    write(shop, "README.md", "# Feature\n")
    commit(shop)
    assert names(checked(shop, base="main")) == []
    assert names(checked(shop, commit="HEAD", base="main")) == []


def test_several_commits_are_one_change(shop: Path) -> None:
    first = head(shop)
    write(shop, "logo.png", b"\0")
    commit(shop)
    write(shop, "README.md", "# Later\n")
    commit(shop)
    assert names(checked(shop, base=first)) == [("binary-file", "logo.png")]


def test_the_only_commit_is_new_as_a_whole(tmp_path: Path) -> None:
    root = tmp_path / "one"
    repository(root, {**FILES, "logo.png": b"\0"})
    assert names(checked(root)) == [("binary-file", "logo.png")]
    assert names(checked(root, commit="HEAD")) == [("binary-file", "logo.png")]


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "new")
    write(tmp_path / "new", "logo.png", b"\0")
    assert names(checked(tmp_path / "new")) == [("binary-file", "logo.png")]


def test_only_what_is_staged(shop: Path) -> None:
    write(shop, "logo.png", b"\0")
    git(shop, "add", "logo.png")
    write(shop, "other.png", b"\0")
    assert names(checked(shop, staged=True)) == [("binary-file", "logo.png")]


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


# --- pipelines ------------------------------------------------------------------------------------


def test_a_merge_requests_pipeline_knows_its_base(shop: Path) -> None:
    first = head(shop)
    write(shop, "logo.png", b"\0")
    commit(shop)
    write(shop, "README.md", "# Later\n")
    commit(shop)
    found = checked(shop, {"CI_MERGE_REQUEST_DIFF_BASE_SHA": first})
    assert (names(found), found.base) == ([("binary-file", "logo.png")], first)


@pytest.mark.parametrize("kind", ["merged_result", "merge_train"])
def test_a_pipeline_of_merged_results(shop: Path, kind: str) -> None:
    base = head(shop)
    git(shop, "checkout", "-q", "-b", "feature")
    write(shop, "logo.png", b"\0")
    commit(shop)
    git(shop, "checkout", "-q", "main")
    write(shop, "main.png", b"\0")
    commit(shop)
    git(shop, "merge", "-q", "--no-ff", "-m", "merge", "feature")
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_MERGE_REQUEST_EVENT_TYPE": kind}
    assert names(checked(shop, variables)) == [("binary-file", "logo.png")]


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


# --- places ---------------------------------------------------------------------------------------


def test_from_a_subfolder(shop: Path) -> None:
    write(shop, "logo.png", b"\0")
    found = check(CheckRequest(shop / "tests", environment(shop)))
    assert names(found) == [("binary-file", "logo.png")]


def test_a_linked_worktree(shop: Path) -> None:
    git(shop, "worktree", "add", "-q", "../linked", "-b", "linked")
    linked = shop.parent / "linked"
    write(linked, "logo.png", b"\0")
    before = whole_tree(shop)
    assert names(checked(linked)) == [("binary-file", "logo.png")]
    assert_same(whole_tree(shop), before)


def test_a_detached_head(shop: Path) -> None:
    git(shop, "checkout", "-q", "--detach", "HEAD")
    write(shop, "logo.png", b"\0")
    assert names(checked(shop)) == [("binary-file", "logo.png")]


def test_a_split_index(shop: Path) -> None:
    git(shop, "update-index", "--split-index")
    write(shop, "logo.png", b"\0")
    assert names(checked(shop)) == [("binary-file", "logo.png")]


def test_a_sparse_checkout_deletes_nothing(shop: Path) -> None:
    git(shop, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing-here")
    assert not (shop / "tests").exists()
    write(shop, "logo.png", b"\0")
    assert names(checked(shop)) == [("binary-file", "logo.png")]


def test_another_repository_inside_is_left_out(shop: Path) -> None:
    repository(shop / "inner", {"x.png": b"\0"})
    assert names(checked(shop)) == []


def test_a_link_and_a_mode_are_as_git_sees_them(shop: Path) -> None:
    link(shop, "here", "README.md")
    (shop / "cart.py").chmod(0o755)
    assert names(checked(shop)) == []


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


def test_line_ends_as_the_checkout_has_them(shop: Path) -> None:
    git(shop, "config", "core.autocrlf", "true")
    write(shop, "cart.py", CART.replace("\n", "\r\n"))
    assert names(checked(shop)) == []


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


def test_a_damaged_repository_is_no_defect(shop: Path) -> None:
    blob = head(shop, "HEAD:cart.py")
    write(shop, "cart.py", CART + "x = 1\n")
    shutil.rmtree(shop / ".git/objects" / blob[:2])
    with pytest.raises(NightshiftError, match="cannot be read"):
        check(CheckRequest(shop, environment(shop)))


# --- settings -------------------------------------------------------------------------------------

OFF = "policy:\n  flags:\n    binary-file: off\n"


def test_the_settings_are_those_of_the_base(shop: Path) -> None:
    write(shop, "nightshift.yaml", OFF)
    write(shop, "logo.png", b"\0")
    assert ("binary-file", "logo.png") in names(checked(shop))
    commit(shop)
    write(shop, "new.png", b"\0")
    assert names(checked(shop)) == []


def test_a_level_of_the_settings(shop: Path) -> None:
    write(shop, "nightshift.yaml", OFF.replace("off", "warn"))
    commit(shop)
    write(shop, "new.png", b"\0")
    found = checked(shop)
    assert [(each.name, each.level) for each in found.findings] == [("binary-file", "warn")]
    assert not found.failed


def test_variables_come_before_the_file(shop: Path) -> None:
    write(shop, "README.md", "# Cart\n" + "more\n" * 30)
    assert names(checked(shop)) == []
    level = {"NIGHTSHIFT_POLICY__FLAGS": '{"diff-too-large": "warn"}'}
    found = checked(shop, {**level, "NIGHTSHIFT_MAX_DIFF_LINES": "20"})
    assert names(found) == [("diff-too-large", "README.md")]


def test_an_unknown_flag_in_the_settings(shop: Path) -> None:
    write(shop, "nightshift.yaml", "policy:\n  flags:\n    binary-files: off\n")
    commit(shop)
    with pytest.raises(NightshiftError, match=r"nightshift.yaml:\d+: .*did you mean binary-file\?"):
        checked(shop, commit="HEAD", base="HEAD")


def test_what_was_selected(shop: Path) -> None:
    write(shop, "cart.py", CART.replace("items)", "items )"))
    write(shop, "other.py", "X = 1\n")
    found = checked(shop, selected=("cart.py",))
    assert ("outside-selection", "other.py") in names(found)
    assert ("outside-selection", "cart.py") not in names(found)


def test_what_was_selected_from_a_subfolder(shop: Path) -> None:
    write(shop, "tests/test_cart.py", TESTS + "\n\ndef test_x(): assert total([]) == 0\n")
    for given in ("test_cart.py", "../tests/test_cart.py", "tests/test_cart.py"):
        asked = CheckRequest(shop / "tests", environment(shop), selected=(given,))
        assert names(check(asked)) == [], given


def test_recent_files_count_where_they_are_asked_for(shop: Path) -> None:
    write(shop, "README.md", "# Cart\n\nTotals of carts.\n")
    assert names(checked(shop)) == []
    assert names(checked(shop, recent=1)) == [("recent-file", "README.md")]
    write(shop, "README.md", "# Cart\n\nTotals.\n")
    write(shop, "cart.py", CART + "# more\n")
    assert names(checked(shop, recent=5)) == []


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
    monkeypatch.setattr(kept_command, "restrict_to", lambda _rights: None)  # it would be for good

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

    monkeypatch.setattr(kept_command, "restrict_to", refuse)
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


def test_a_reviewer_of_people_is_told_where_a_night_is_sent_back(shop: Path) -> None:
    write(shop, "cart.py", CART.replace("items)\n", "items)  # noqa: C416\n"))
    commit(shop)
    asked = CheckRequest(shop, environment(shop), "HEAD")
    assert [f.level for f in check(asked).findings] == ["note"]
    night = {"CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "night-shift/cart"}
    for strict in (
        CheckRequest(shop, environment(shop) | night, "HEAD"),
        CheckRequest(shop, environment(shop), "HEAD", category="tests"),
    ):
        assert [f.level for f in check(strict).findings] == ["fail"]


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
        return list(read_description({**job, **env}, Settings()))


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
