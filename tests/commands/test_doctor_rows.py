"""``nightshift doctor``: the real command, with the GitLab stand-in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.commands.doctor_checkout import DoctorRow
from gitlab_nightshift.commands.doctor_gitlab import list_gitlab_rows
from gitlab_nightshift.demo.standin_state import NOBODY
from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.onboarding.project_files import TEMPLATE
from gitlab_nightshift.run.session_opening import open_run
from gitlab_nightshift.run_folder import Invocation
from tests.gateway.test_model_list import endpoint
from tests.support.setup_endpoints import add_setup
from tests.support.standin_records import StandinSchedule
from tests.support.world import BOT_TOKEN, SECRETS, World, git, world

OWNER = "glpat-TheMaintainersToken01"
INCLUDE = {".gitlab-ci.yml": f"include: {{project: g/gitlab-nightshift, file: {TEMPLATE}}}\n"}
NO_KEY = (
    "no model key: set ANTHROPIC_API_KEY as a masked CI variable (or ANTHROPIC_AUTH_TOKEN,"
    " CLAUDE_CODE_OAUTH_TOKEN)"
)
FILES = {"Makefile": "test:\n\ttrue\n", "shop.py": "PRICE = 1\n", **INCLUDE}


def examine(shop: World, **env: str) -> tuple[dict[str, tuple[str, str]], Any]:
    """State and text of each row, and the whole JSON document."""
    done = shop.nightshift("doctor", "--json", **env)
    document = json.loads(done.stdout)
    assert (done.exit_status, done.stderr) == (document["exit_status"], "")
    assert not [secret for secret in (*SECRETS, OWNER) if secret in done.stdout]
    return {row["name"]: (row["state"], row["text"]) for row in document["rows"]}, document


def ask_gitlab(shop: World, **env: str) -> dict[str, list[DoctorRow]]:
    """The rows about GitLab, by their names, in this process: faster than ``examine``, which also
    tries the sandbox."""
    call = Invocation({**shop.env, **env}, shop.checkout, None, {}, colour=False)
    with open_run(call) as session:
        rows = list(list_gitlab_rows(session))
    assert not [secret for secret in (*SECRETS, OWNER) if secret in str(rows)]
    return {row.name: [each for each in rows if each.name == row.name] for row in rows}


def test_a_project_that_is_set_up(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop, endpoint(200) as (url, _):
        owner = shop.gitlab.users[0]
        shop.gitlab.add_token(OWNER, owner, access_level=40)
        shop.project.schedules.append(StandinSchedule(1, owner, "Night"))
        variable = {"protected": False, "masked": True, "environment_scope": "nightshift"}
        shop.project.variables.append({"key": "GITLAB_TOKEN", **variable})
        image = {"CI_JOB_IMAGE": "python:3"}
        rows, document = examine(shop, GITLAB_TOKEN=OWNER, ANTHROPIC_BASE_URL=url, **image)
        assert rows["GitLab"][0] == rows["schedule"][0] == rows["variables"][0] == "ok"
        assert rows["push rule"] == ("ok", "it allows what a night pushes")
        assert rows["pipeline file"][0] == rows["proof"][0] == rows["agent"][0] == "ok"
        assert rows["pipeline"][0] == rows["CA"][0] == "ok"
        assert ", Maintainer, scopes " in rows["GitLab"][1]
        assert rows["image"] == ("ok", "python:3 has true")
        assert rows["model"][0] == "ok"
        assert document["verdict"].startswith("A night would start here")

        other_rows, _ = examine(shop, ANTHROPIC_BASE_URL=url, CI_JOB_IMAGE="")  # a shell executor
        assert other_rows["image"] == ("ok", "the runner's machine has true")

        gitlab_rows = ask_gitlab(shop, GITLAB_TOKEN=BOT_TOKEN)  # a Developer's
        assert (
            gitlab_rows["variables"][-1].state == gitlab_rows["push rule"][-1].state == "not known"
        )


@pytest.mark.parametrize(
    ("listed", "state", "text"),
    [
        ({"id": "qwen", "max_model_len": 8192}, "warn", "gives qwen a context of 8192 tokens"),
        ({"id": "qwen", "meta": {"n_ctx": 40960}}, "ok", "has qwen, with a context of 40960"),
        ({"id": "qwen:latest", "owned_by": "library"}, "ok", "has qwen"),
    ],
)
def test_a_small_context_is_a_warning(
    tmp_path: Path, listed: dict[str, Any], state: str, text: str
) -> None:
    body = json.dumps({"data": [listed, {"id": "other"}]}).encode()
    config = "agent: model\nmodels: {implement: qwen}\nmax_tokens: 1000\n"
    with world(tmp_path, files=FILES, config=config) as shop, endpoint(200, body=body) as (url, _):
        rows, _ = examine(shop, OPENAI_BASE_URL=url)
        assert rows["model"][0] == state
        assert text in rows["model"][1]


def test_doctor_and_init_know_a_night_by_its_description(tmp_path: Path) -> None:
    """A second schedule would be a second paid night."""
    item = f"{{project: g/p, file: {TEMPLATE}, inputs: {{schedule_description: Nightly}}}}"
    with world(tmp_path, files={**FILES, ".gitlab-ci.yml": f"include: {item}\n"}) as shop:
        add_setup(shop.gitlab)
        owner = shop.gitlab.users[0]
        shop.gitlab.add_token(OWNER, owner, access_level=40)
        shop.project.schedules.append(StandinSchedule(1, owner, "Nightly", variables={}))
        [row] = ask_gitlab(shop, GITLAB_TOKEN=BOT_TOKEN)["schedule"]
        assert (row.state, row.text) == ("ok", f"Nightly, on main, of @{owner.username}")
        done = shop.nightshift("init", "--gitlab", GITLAB_TOKEN=OWNER)
        assert "schedule     Nightly exists\n" in done.stdout, done.stderr
        assert len(shop.project.schedules) == 1


def test_without_a_schedule_the_possible_mark_is_suggested(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop:
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], access_level=40)
        [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["schedule"]
        assert row.state == "warn" and "with the variable NIGHTSHIFT = true" in row.text
        shop.project.variables_role = NOBODY
        [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["schedule"]
        assert "with the description that the include's input schedule_description" in row.text


def test_whether_a_fine_grained_token_may_write_is_not_known(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop:
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], ("granular",), access_level=40)
        [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["GitLab"]
        assert row.state == "not known"
        assert "it may read what nights read; a rehearsal shows whether it may write" in row.text


def test_a_maintainer_sees_what_to_fix(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop, endpoint(401) as (url, _):
        rose = shop.gitlab.add_user("rose", "Rose")
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], access_level=40)
        shop.gitlab.blocked.add(rose.id)
        shop.project.schedules.append(StandinSchedule(1, rose, "Night"))
        shop.project.push_rule["commit_message_regex"] = "^JIRA-"
        leaked = {"key": "DEPLOY_TOKEN", "protected": False, "masked": True}
        shop.project.variables.append({**leaked, "environment_scope": "*"})
        rows, document = examine(shop, GITLAB_TOKEN=OWNER, ANTHROPIC_BASE_URL=url)
        assert rows["push rule"] == (
            "fail",
            "would refuse the night's push: commit messages must match ^JIRA-: set commit_template"
            " to one that does",
        )
        assert rows["schedule"][0] == "fail"
        assert "@rose" in rows["schedule"][1]
        assert rows["variables"][0] == "warn"
        assert "DEPLOY_TOKEN" in rows["variables"][1]
        assert rows["model"] == ("fail", f"{url} rejects the key (401): set another")
        assert document["exit_status"] == 2
        assert document["verdict"].startswith("A night would fail here: 3 to fix")


def test_reasons_why_no_pipeline_starts(tmp_path: Path) -> None:
    excluding = "workflow: {rules: [{if: $CI_COMMIT_TAG}]}\n"
    unsure = "workflow: {rules: [{if: $TEAM}]}\n"
    for number, (text, state, why) in enumerate(
        (
            (excluding, "fail", "keep scheduled pipelines from starting: add the rule"),
            ('"\\e[3m\\nb": {stage: a}\n', "fail", "invalid: jobs: [3m b config should"),
            ("", "fail", "no pipeline starts: .gitlab-ci.yml does not include nightshift"),
            (unsure, "not known", "as they depend on other variables"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with world(folder, files={**FILES, ".gitlab-ci.yml": text}) as shop:
            [row] = ask_gitlab(shop)["pipeline"]
            assert row.state == state and why in row.text
            assert row.exit_status == (2 if state == "fail" else 0)


def test_a_project_without_a_commit_in_gitlab_is_recognized(
    tmp_path: Path,
) -> None:
    """GitLab answers 404 for its pipeline file, as for a missing permission."""
    with world(tmp_path, files=FILES) as shop:
        git(shop.project.bare_repository, "update-ref", "-d", "refs/heads/main")
        [row] = ask_gitlab(shop)["pipeline"]
        assert row.state == "fail"
        assert row.text == "acme/shop has no commit in GitLab yet: push the first one"


def test_a_job_token_that_may_not_fetch_the_program(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop:
        setup = add_setup(shop.gitlab)
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], access_level=40)

        def look() -> tuple[str, str]:
            [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["job token"]
            return row.state, row.text

        assert look()[0] == "not known", "the project of the program does not exist"
        shop.gitlab.add_project("acme/gitlab-nightshift")
        state, why = look()
        assert (
            state == "warn"
            and "from acme/gitlab-nightshift: allow acme/shop there (Settings" in why
        )
        setup.allowed_groups.append("acme")
        assert look()[0] == "ok"
        setup.allowed_groups.clear()
        setup.limits_job_tokens = False
        assert look()[0] == "ok"


def test_which_variables_nights_and_other_branches_get(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES) as shop:
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], access_level=40)
        state = {"protected": False, "masked": True}
        group = {**state, "environmentScope": "*", "groupName": "acme"}

        def look() -> list[tuple[str, str]]:
            rows = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["variables"]
            return [(row.state, row.text) for row in rows]

        [(token_state, why), (exposed_state, _)] = look()
        assert (token_state, exposed_state) == ("warn", "ok")
        assert why.startswith("no GITLAB_TOKEN in the project or its groups")

        inherited = shop.project.inherited_variables
        inherited += [{"key": key, **group} for key in ("GITLAB_TOKEN", "DEPLOY_KEY", "GREETING")]
        [(_, everywhere), (_, exposed)] = look()
        assert everywhere.startswith("GITLAB_TOKEN of acme reaches every branch")
        assert exposed.startswith("DEPLOY_KEY of acme: pipelines of every branch get these")

        own = {"key": "GITLAB_TOKEN", **state, "environment_scope": "production"}
        shop.project.variables.append(own)
        assert look()[0][1].startswith("GITLAB_TOKEN is scoped to the environment production")
        own |= {"environment_scope": "nightshift*", "protected": True}
        assert look()[0] == ("ok", "GITLAB_TOKEN is masked and does not reach the nights' branches")
        shop.project.protected_branches.clear()
        assert look()[0][1].startswith("GITLAB_TOKEN is protected but the branch main is not")

        shop.gitlab.fail_next("POST", "graphql", 404, {"message": "404"}, times=9)
        assert ("not known", "this GitLab does not show the variables of its groups") in look()


def test_with_a_refused_token_nothing_else_is_asked_of_gitlab(tmp_path: Path) -> None:
    files = {".gitlab-ci.yml": "unit: {script: [make]}\n"}
    with world(tmp_path, files=files) as shop, endpoint(404) as (url, _):
        rows, document = examine(shop, GITLAB_TOKEN="glpat-wrong", ANTHROPIC_BASE_URL=url)
        assert rows["GitLab"][0] == "fail"
        assert "schedule" not in rows
        assert rows["pipeline file"][0] == rows["model"][0] == "warn"
        assert (document["exit_status"], rows["history"][0]) == (2, "ok")
        lines = shop.nightshift("doctor", ANTHROPIC_BASE_URL=url).stdout.splitlines()
        assert lines[-1].startswith("A night would start here, ")


def test_with_invalid_settings_there_is_one_row(tmp_path: Path) -> None:
    with world(tmp_path, config="max_diff_lines: many\n") as shop:
        rows, document = examine(shop)
        assert list(rows) == ["settings"]
        assert "max_diff_lines" in rows["settings"][1]
        assert document["exit_status"] == 2


def test_each_cause_is_reported_once(tmp_path: Path) -> None:
    """Without a key there is no agent, no model and no night, but the sandbox is tried."""
    with world(tmp_path, files=FILES) as shop, endpoint(401) as (url, _):
        keyless = dict.fromkeys(MODEL_KEYS, "")
        rows, document = examine(shop, ANTHROPIC_BASE_URL=url, **keyless)
        assert rows["agent"] == ("fail", NO_KEY)
        assert "model" not in rows
        assert rows["sandbox"][0] in ("ok", "warn"), rows["sandbox"]
        assert document["verdict"].startswith("A night would fail here: 1 to fix")


@pytest.mark.parametrize(
    ("files", "uncommitted", "step"),
    [
        ({}, {}, "there is no .gitlab-ci.yml: `nightshift init` writes it, with the include"),
        (
            {".gitlab-ci.yml": "unit: {script: [make]}\n"},
            {},
            ".gitlab-ci.yml does not include nightshift: `nightshift init` adds it",
        ),
        (
            {},
            INCLUDE,
            "the include of nightshift in .gitlab-ci.yml is not committed: commit and push it",
        ),
    ],
)
def test_the_next_step_to_a_pipeline(
    tmp_path: Path, files: Mapping[str, str], uncommitted: Mapping[str, str], step: str
) -> None:
    with (
        world(tmp_path, files={"shop.py": "PRICE = 1\n", **files}) as shop,
        endpoint(200) as (url, _),
    ):
        for name, text in uncommitted.items():
            (shop.checkout / name).write_text(text)
        rows, _ = examine(shop, ANTHROPIC_BASE_URL=url)
        matching = [text for _, text in rows.values() if step in text]
        assert len(matching) == 1, rows


def test_an_uncommitted_settings_file_is_a_warning(tmp_path: Path) -> None:
    with world(tmp_path, files=FILES, config="") as shop, endpoint(200) as (url, _):
        (shop.checkout / "nightshift.yaml").write_text("reviewer: ann\n")
        in_a_clone = dict.fromkeys(("GITLAB_CI", "CI_PIPELINE_ID"), "")
        rows, _ = examine(shop, ANTHROPIC_BASE_URL=url, **in_a_clone)
        assert rows["settings file"] == (
            "warn",
            "nightshift.yaml is not committed, so nights do not read it: commit and push it",
        )


def test_a_clone_is_the_project_that_its_origin_names(tmp_path: Path) -> None:
    """Without a job's variables, and without an identity in git."""
    with world(tmp_path, files=FILES) as shop, endpoint(200) as (url, _):
        shop.gitlab.add_token(OWNER, shop.gitlab.users[0], access_level=40)
        in_a_clone = dict.fromkeys(
            (name for name in shop.env if name.startswith(("CI", "GITLAB_"))), ""
        )
        rows, _ = examine(shop, ANTHROPIC_BASE_URL=url, **{**in_a_clone, "GITLAB_TOKEN": OWNER})
        assert rows["project"][1].startswith("acme/shop (private)")
        assert rows["commit author"] == (
            "not known",
            "git has no name and e-mail here; a job uses those of the schedule's owner",
        )
