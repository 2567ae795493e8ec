"""Mistakes are reported in one line before anything is spent: settings, tokens, keys, checkouts."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.disks import small_disk
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import GOOD, bill, nothing, priced
from tests.support.trees import places_of
from tests.support.world import FILES, PLACEHOLDER, World, git, world

MISTAKES: list[tuple[dict[str, str], int, str]] = [
    ({"ANTHROPIC_API_KEY": ""}, 5, "no model key: set ANTHROPIC_API_KEY as a masked CI var"),
    ({"NIGHTSHIFT_AGENT_EXECUTABLE": "klaude"}, 5, "no agent CLI: klaude is not on PATH"),
    ({"GITLAB_TOKEN": ""}, 2, "GITLAB_TOKEN is not set: add it as a masked CI variable"),
    ({"GITLAB_TOKEN": "glpat-wrong"}, 2, "rejects GITLAB_TOKEN: it is mistyped, expired"),
]
OF_THE_PLAN: list[tuple[dict[str, str], int, str]] = [
    ({"GITLAB_TOKEN": "glpat-reads"}, 2, "lacks the scope api"),
    ({"GITLAB_TOKEN": "glpat-guest"}, 2, "has a role below Developer on 4001"),
    ({"CI_PROJECT_ID": "4999"}, 2, "the token cannot see project 4999"),
    ({"CI_COMMIT_REF_NAME": "feature"}, 2, "the job runs on feature, not on main"),
    ({"NIGHTSHIFT_TARGET_BRANCH": "release"}, 2, "not on release, which target_branch names (var"),
    ({"CI_COMMIT_SHA": "0" * 40}, 11, "but the job is for 000000000000: check out no other"),
    ({"NIGHTSHIFT_CATEGORY": "speed"}, 2, "category: no category 'speed'; known are tests,"),
    ({"NIGHTSHIFT_PROMPTS__VERIFY": "gone.md"}, 2, "gone.md: no such template"),
    ({"GITLAB_TOKEN": "glpat-today"}, 2, "00:00 UTC, before the night can end: rotate it"),
    ({"NIGHTSHIFT_REVIEWERS": "rita,rito,@ritu"}, 2, "GitLab knows no user rito, @ritu: correct"),
    ({"NIGHTSHIFT_BRANCH_PREFIX": "main"}, 2, "branches main… would be protected by main*"),
    ({"NIGHTSHIFT_BRANCH_PREFIX": "main/x/"}, 2, "there is a branch main, so git allows none"),
    ({"GITLAB_USER_NAME": "", "GITLAB_USER_EMAIL": ""}, 2, "no name and e-mail for the commit"),
    ({"NIGHTSHIFT_PATHS": "src/**"}, 2, "paths (variable NIGHTSHIFT_PATHS): none of the reposi"),
    ({"NIGHTSHIFT_EXCLUDE_PATHS": "**"}, 2, "files is left to look at: correct the patterns"),
    ({"NIGHTSHIFT_TITLE_TEMPLATE": "{{titel}}"}, 2, "unknown placeholder {{titel}}; did you"),
]
"""What the plan finds, which a run begins with; more of it is above."""
SETTINGS = {
    "NIGHTSHIFT_MAX_DIF_LINES": ("5", "did you mean max_diff_lines?"),
    "NIGHTSHIFT_VERIFY_COMMANDS": ("echo 'x", "NIGHTSHIFT_VERIFY_COMMANDS: "),
    "NIGHTSHIFT_TASK_TEST": ("unit", "task_test: it applies to a task, and there is none"),
    "NIGHTSHIFT_AGENT_ENV": ("GITLAB_TOKEN", "GITLAB_TOKEN is a GitLab credential"),
}
"""Told together."""


def test_mistakes_are_told_before_anything_is_spent(tmp_path: Path) -> None:
    failures = []
    env = {name: value for name, (value, _) in SETTINGS.items()}
    with world(tmp_path, GOOD) as shop:
        done = shop.nightshift("run", **env)
        shop.assert_nothing_spent(done, 2, *(text for _, text in SETTINGS.values()))
        guest = shop.gitlab.add_user("guest", "Guest")
        shop.gitlab.add_token("glpat-reads", guest, scopes=("read_api",), access_level=30)
        shop.gitlab.add_token("glpat-guest", guest, scopes=("api",), access_level=10)
        shop.project.protected_branches.append("main*")
        bot, tomorrow = shop.gitlab.users[0], datetime.now(UTC) + timedelta(days=1)
        shop.gitlab.add_token("glpat-today", bot, expires_at=f"{tomorrow:%Y-%m-%d}")
        cases = [("run", *mistake) for mistake in MISTAKES]
        for command, env, status, text in [*cases, *(("plan", *case) for case in OF_THE_PLAN)]:
            try:
                done = shop.nightshift(command, NIGHTSHIFT_RUN_TIMEOUT="2d", **env)
                shop.assert_nothing_spent(done, status, text)
            except AssertionError as error:
                failures.append((env, str(error)))
        done = shop.nightshift("plan", NIGHTSHIFT_PROMPTS__MR="gone.md")
        shop.assert_nothing_spent(done, 2, "gone.md: no such template")
    assert failures == []


KEYS = {
    "ANTHROPIC_AUTH_TOKEN": ("authorization", "Bearer key-of-the-night"),
    "CLAUDE_CODE_OAUTH_TOKEN": ("authorization", "Bearer key-of-the-night"),
}


def test_any_key_of_the_cli_will_do(tmp_path: Path) -> None:
    """The endpoint gets it as it has to be sent, the agent a placeholder in its place.

    ``test_claude.py`` has an ANTHROPIC_API_KEY.
    """
    with world(tmp_path, {"analyze": priced(nothing(), 0.05)}) as shop:
        for number, (name, (header, value)) in enumerate(KEYS.items()):
            with ModelEndpoint(bill) as endpoint:
                key = {"ANTHROPIC_API_KEY": "", name: "key-of-the-night"}
                own = {"ANTHROPIC_BASE_URL": endpoint.url, "NIGHTSHIFT_MAX_BUDGET_USD": "0.05"}
                assert shop.nightshift("run", **own, **key).exit_status == 0
            [request] = endpoint.messages
            sent = {h: request.headers.get(h) for h in ("x-api-key", "authorization")}
            assert sent == {"x-api-key": None, "authorization": None, header: value}
            env = shop.agent.seen[number].env
            assert PLACEHOLDER.fullmatch(env["ANTHROPIC_API_KEY"])
            assert not {"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} & env.keys()
        assert len(shop.agent.seen) == len(KEYS)
        assert places_of(["key-of-the-night"], shop.agent.texts) == []


def changed(shop: World) -> None:
    (shop.checkout / "shop.py").write_text("x = 1\n")


def deleted(shop: World) -> None:
    (shop.checkout / "shop.py").unlink()


def staged(shop: World) -> None:
    (shop.checkout / "new.py").write_text("x = 1\n")
    git(shop.checkout, "add", "new.py")


def not_executable(shop: World) -> None:
    (shop.checkout / "run.sh").chmod(0o644)


def test_changed_tracked_files_at_the_start(tmp_path: Path) -> None:
    failures = []
    with world(tmp_path, GOOD) as shop:
        for spoil in (changed, deleted, staged, not_executable):
            git(shop.checkout, "reset", "-q", "--hard")
            spoil(shop)
            shop.look()
            done = shop.nightshift("plan")
            try:
                shop.assert_nothing_spent(done, 11, "E_WORKSPACE_DIRTY", "commit or")
            except AssertionError as error:
                failures.append((spoil.__name__, str(error)))
        shop.assert_nothing_spent(shop.nightshift("run"), 11, "E_WORKSPACE_DIRTY", "commit or")
        assert shop.result["error_code"] == "E_WORKSPACE_DIRTY"
    assert failures == []


def test_an_output_folder_may_hold_no_tracked_files(tmp_path: Path) -> None:
    """Those of before_script are no part of a change."""
    with world(tmp_path, GOOD, files={**FILES, "nightshift/mine.txt": "x\n"}) as shop:
        (shop.checkout / "installed.txt").write_text("by before_script")
        shop.look()
        before = shop.products()
        done = shop.nightshift("run")
        shop.assert_nothing_spent(done, 2, "output_dir: nightshift is tracked")
        assert shop.products() == before
        assert git(shop.checkout, "status", "--porcelain") == "?? installed.txt\n"


DEVELOP = {
    "CI_COMMIT_REF_NAME": "develop",
    "NIGHTSHIFT_TARGET_BRANCH": "develop",
    "NIGHTSHIFT_OUTPUT_DIR": "night",
}


@contextmanager
def on_develop(folder: Path) -> Iterator[World]:
    with world(folder, GOOD) as shop:
        git(shop.project.bare_repository, "branch", "develop", "main")
        yield shop


def test_no_night_starts_whose_branch_would_be_protected(tmp_path: Path) -> None:
    """Its pipeline would get the protected variables."""
    with on_develop(tmp_path) as shop:
        shop.project.protected_branches.append("night*")
        done = shop.nightshift("run", **DEVELOP)
        assert done.exit_status == 2
        assert "branches night-shift/… would be protected by night*" in done.last_line
        assert shop.agent.seen == []


def test_a_branch_that_is_protected_by_now_is_not_pushed(tmp_path: Path) -> None:
    """Once it is not any more, its bundle is published, to the target branch."""
    with on_develop(tmp_path) as shop:
        assert shop.nightshift("run", "--dry-run", **DEVELOP).exit_status == 0
        shop.project.protected_branches.append("night*")
        done = shop.nightshift("publish", "night/bundle", **DEVELOP)
        assert done.exit_status == 12
        result = json.loads((shop.checkout / "night/result.json").read_text())
        assert result["error_code"] == "E_PUBLISH"
        assert "would be protected by night*" in done.last_line
        assert "nightshift publish night/bundle" in done.last_line
        assert shop.written == []

        shop.project.protected_branches.clear()
        assert shop.nightshift("publish", "night/bundle", **DEVELOP).exit_status == 0
        [mr] = shop.merge_requests
        assert mr.target_branch == "develop"
        names = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert names == "test_shop.py\n"
        shutil.rmtree(shop.checkout / "night")
        shop.assert_restored()


BROKEN_GIT = {
    ".git/config": ("[core\nx", "git cannot work here: bad config line 1 in file .git/config"),
    ".git/index": ("none", "git cannot work here: .git/index: index file smaller than expected"),
    ".git/HEAD": ("none", "is not a git checkout that can be read: git rev-parse: fatal: not a"),
    "../../../home/.gitconfig": ("[user\nname = x", "bad config line 1 in file "),
}


def test_a_git_that_cannot_work_is_told_as_that(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        for name, (text, why) in BROKEN_GIT.items():
            file = shop.checkout / name
            before = file.read_bytes() if file.exists() else b""
            file.write_text(text)
            shop.look()
            done = shop.nightshift("plan")
            shop.assert_nothing_spent(done, 2, why)
            file.write_bytes(before)


@pytest.mark.parametrize("stage", [["plan"], ["run", "--rehearse"], ["run"]])
def test_a_temporary_folder_that_starts_no_program_is_told(
    tmp_path: Path, stage: list[str]
) -> None:
    with world(tmp_path, GOOD) as shop, small_disk(tmp_path / "tmp", "64m") as folder:
        subprocess.run(["mount", "-o", "remount,noexec", folder], check=True)
        done = shop.nightshift(*stage, TMPDIR=str(folder))
        shop.assert_nothing_spent(
            done,
            2,
            f"TMPDIR: {folder} is mounted noexec, and a night starts programs there: set TMPDIR to"
            " a folder on another disk",
        )


def test_a_temporary_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        for none in (tmp_path / "gone", shop.checkout / "shop.py", Path("/proc")):
            done = shop.nightshift("plan", TMPDIR=str(none))
            shop.assert_nothing_spent(done, 2, f"TMPDIR: {none} is not a writable folder")


def test_a_git_that_cannot_push_is_found_before_anything_is_spent(tmp_path: Path) -> None:
    """The API answers all the same: only git needs its helper, and it only at the end."""
    with world(tmp_path, GOOD) as shop:
        real = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip())
        helpers, programs = tmp_path / "exec", tmp_path / "git-bin"
        helpers.mkdir()
        programs.mkdir()
        for path in real.iterdir():
            if not path.name.startswith("git-remote"):
                (helpers / path.name).symlink_to(path)
        wrapper = f'#!/bin/sh\nexec {shutil.which("git")} --exec-path={helpers} "$@"\n'
        (programs / "git").write_text(wrapper)
        (programs / "git").chmod(0o755)
        search = f"{programs}:{shop.env['PATH']}"
        place = f"git cannot push to {shop.project.http_url} from here, as publishing will: git:"
        for command in (["run"], ["run", "--rehearse"], ["plan"]):
            done = shop.nightshift(*command, PATH=search)
            shop.assert_nothing_spent(done, 2, f"{place} 'remote-http' is not a git command.")


def test_a_token_that_git_does_not_let_push_is_found_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.gitlab.add_token("glpat-api", shop.gitlab.users[0], scopes=("api",), access_level=30)
        shop.gitlab.fail_next("GET", "/info/refs", 403, {"message": "You are not allowed"})
        done = shop.nightshift("run", GITLAB_TOKEN="glpat-api")
        needed = "GITLAB_TOKEN needs the role Developer and the scope write_repository or api"
        shop.assert_nothing_spent(done, 2, "git cannot push to ", needed)
