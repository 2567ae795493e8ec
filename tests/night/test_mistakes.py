"""Mistakes are told in one line before anything is spent: settings, tokens, keys, checkouts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import GOOD, bill, nothing, priced
from tests.support.trees import places_of
from tests.support.world import FILES, PLACEHOLDER, World, git, world


@pytest.mark.parametrize(
    ("env", "status", "text"),
    [
        ({"ANTHROPIC_API_KEY": ""}, 5, "no model key: set ANTHROPIC_API_KEY as a masked CI var"),
        ({"NIGHTSHIFT_AGENT_EXECUTABLE": "klaude"}, 5, "no agent CLI: klaude is not on PATH"),
        ({"GITLAB_TOKEN": ""}, 2, "GITLAB_TOKEN is not set: add it as a masked CI variable"),
        ({"GITLAB_TOKEN": "glpat-wrong"}, 2, "refuses GITLAB_TOKEN: it is mistyped, expired"),
        ({"GITLAB_TOKEN": "glpat-reads"}, 2, "lacks the scope api"),
        ({"GITLAB_TOKEN": "glpat-guest"}, 2, "has less than the role Developer on 4001"),
        ({"CI_PROJECT_ID": "4999"}, 2, "the token cannot see project 4999"),
        ({"CI_COMMIT_REF_NAME": "feature"}, 2, "the job runs on feature, not on main"),
        ({"CI_COMMIT_SHA": "0" * 40}, 11, "but the job is for 000000000000: leave HEAD alone"),
        ({"NIGHTSHIFT_CATEGORY": "speed"}, 2, "category: no category 'speed'; known are tests,"),
        ({"NIGHTSHIFT_MAX_DIF_LINES": "5"}, 2, "did you mean max_diff_lines?"),
        ({"NIGHTSHIFT_PROMPTS__VERIFY": "gone.md"}, 2, "gone.md: no such template"),
        ({"NIGHTSHIFT_VERIFY_COMMANDS": "echo 'x"}, 2, "NIGHTSHIFT_VERIFY_COMMANDS: "),
        ({"NIGHTSHIFT_TITLE_TEMPLATE": "{{titel}}"}, 2, "unknown placeholder {{titel}}; did you"),
        ({"NIGHTSHIFT_AGENT_ENV": "GITLAB_TOKEN"}, 2, "GITLAB_TOKEN is a GitLab credential"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_mistakes_are_told_before_anything_is_spent(
    tmp_path: Path, env: dict[str, str], status: int, text: str
) -> None:
    with world(tmp_path, GOOD) as shop:
        guest = shop.gitlab.add_user("guest", "Guest")
        shop.gitlab.add_token("glpat-reads", guest, scopes=("read_api",), access_level=30)
        shop.gitlab.add_token("glpat-guest", guest, scopes=("api",), access_level=10)
        shop.assert_nothing_spent(shop.nightshift("run", **env), status, text)


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("ANTHROPIC_API_KEY", "x-api-key", "key-of-the-night"),
        ("ANTHROPIC_AUTH_TOKEN", "authorization", "Bearer key-of-the-night"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "authorization", "Bearer key-of-the-night"),
    ],
)
def test_any_key_of_the_cli_will_do(tmp_path: Path, name: str, header: str, value: str) -> None:
    """The endpoint gets it as it has to be sent, the agent a placeholder in its place."""
    with (
        world(tmp_path, {"analyze": priced(nothing(), 0.01)}) as shop,
        ModelEndpoint(bill) as endpoint,
    ):
        key = {"ANTHROPIC_API_KEY": "", name: "key-of-the-night"}
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, **key)
        assert done.exit_status == 0
        assert len(endpoint.messages) == len(shop.agent.seen)
        other = {"x-api-key", "authorization"} - {header}
        for request in endpoint.messages:
            assert request.headers[header] == value
            assert not other & request.headers.keys()
        assert places_of(["key-of-the-night"], shop.agent.texts) == []
        env = shop.agent.seen[0].env
        assert PLACEHOLDER.fullmatch(env["ANTHROPIC_API_KEY"])
        assert not {"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} & env.keys()


def changed(shop: World) -> None:
    (shop.checkout / "shop.py").write_text("x = 1\n")


def deleted(shop: World) -> None:
    (shop.checkout / "shop.py").unlink()


def staged(shop: World) -> None:
    (shop.checkout / "new.py").write_text("x = 1\n")
    git(shop.checkout, "add", "new.py")


def not_executable(shop: World) -> None:
    (shop.checkout / "run.sh").chmod(0o644)


@pytest.mark.parametrize("spoil", [changed, deleted, staged, not_executable])
def test_changed_tracked_files_at_the_start(tmp_path: Path, spoil: Callable[[World], None]) -> None:
    with world(tmp_path, GOOD) as shop:
        spoil(shop)
        shop.look()
        shop.assert_nothing_spent(shop.nightshift("run"), 11, "E_WORKSPACE_DIRTY", "commit or")
        assert shop.result["error_code"] == "E_WORKSPACE_DIRTY"


def test_untracked_files_of_before_script_are_no_change(tmp_path: Path) -> None:
    """They stay, and are no part of a change."""
    with world(tmp_path, GOOD) as shop:
        (shop.checkout / "installed.txt").write_text("by before_script")
        shop.look()
        assert shop.nightshift("run").exit_status == 0
        [mr] = shop.merge_requests
        names = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert names == "test_shop.py\n"
        shop.assert_put_back()


def test_a_tracked_folder_named_like_the_output(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, files={**FILES, "nightshift/mine.txt": "x\n"}) as shop:
        before = shop.products()
        done = shop.nightshift("run")
        shop.assert_nothing_spent(done, 2, "output_dir: nightshift is tracked")
        assert shop.products() == before
        assert git(shop.checkout, "status", "--porcelain") == ""
        assert shop.nightshift("run", NIGHTSHIFT_OUTPUT_DIR="night").exit_status == 0


def test_a_target_branch_of_its_own(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        git(shop.project.bare_repository, "branch", "develop", "main")
        job = {"CI_COMMIT_REF_NAME": "develop", "NIGHTSHIFT_TARGET_BRANCH": "develop"}
        assert shop.nightshift("run", **job).exit_status == 0
        assert shop.merge_requests[0].target_branch == "develop"


def test_a_protected_branch_is_not_pushed_to(tmp_path: Path) -> None:
    """Its pipeline would get the protected variables."""
    with world(tmp_path, GOOD) as shop:
        shop.project.protected_branches.append("night*")
        done = shop.nightshift("run")
        assert done.exit_status == 12
        assert shop.result["error_code"] == "E_PUBLISH"
        assert "would be protected by night*" in done.last_line
        assert "nightshift publish nightshift/bundle" in done.last_line
        assert shop.written == []
        shop.assert_put_back()
