"""`nightshift init --gitlab` and `--merge-request`, by the real command on the stand-in."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from gitlab_nightshift import __version__
from gitlab_nightshift.demo.standin_state import NOBODY
from gitlab_nightshift.onboarding.onboarding_request import BRANCH, TITLE
from gitlab_nightshift.onboarding.project_files import TEMPLATE
from tests.commands.test_doctor_rows import ask_gitlab
from tests.commands.test_init import FILES, JOBS
from tests.support.setup_endpoints import MADE_TOKEN, ProjectSettings, add_setup
from tests.support.standin_records import StandinSchedule
from tests.support.standin_repositories import read_blob
from tests.support.world import BOT_TOKEN, Done, World, git, world

OWNER = "glpat-TheMaintainersToken01"
KEY = "sk-ant-of-the-laptop-0001"
ALL = ("--merge-request", "--model-key", "ANTHROPIC_API_KEY")


@contextmanager
def project(folder: Path, jobs: str = JOBS) -> Iterator[tuple[World, ProjectSettings]]:
    """A project without a night, on the laptop of its Maintainer."""
    with world(folder, files={**FILES, ".gitlab-ci.yml": jobs}, config="") as shop:
        made = add_setup(shop.gitlab)
        shop.gitlab.add_project("acme/gitlab-nightshift")
        shop.gitlab.add_token(OWNER, shop.gitlab.users[1], access_level=40)
        yield shop, made


def init(shop: World, *args: str, token: str = OWNER) -> Done:
    done = shop.nightshift("init", *args, GITLAB_TOKEN=token, ANTHROPIC_API_KEY=KEY)
    for secret in (OWNER, KEY, MADE_TOKEN):
        assert secret not in done.stdout + done.stderr
    return done


@dataclass(frozen=True)
class SetUp:
    """A project after ``init`` with all it can do, and its request by then."""

    shop: World
    made: ProjectSettings
    done: Done


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with project(tmp_path_factory.mktemp("set-up")) as (shop, made):
        yield SetUp(shop, made, init(shop, *ALL))


def test_one_command_opens_a_merge_request_that_leaves_nothing_to_do(set_up: SetUp) -> None:
    assert set_up.done.exit_status == 0, set_up.done.stderr
    assert git(set_up.shop.checkout, "status", "--porcelain") == "", "the checkout is not touched"
    [request] = set_up.shop.merge_requests
    text = str(request.description)
    assert (request.source_branch, request.title) == (BRANCH, TITLE)
    assert "- make test: passed in " in text
    assert "## The first night" in text
    assert "| schedule | ok | Night shift, on main, of @" in text
    assert "Before you merge" not in text, "nothing is left to do"
    rehearsal = "The job `nightshift:rehearse` shows, in this and every later merge request that"
    assert f"\n{rehearsal} changes" in text
    assert "; none of your own jobs runs in that pipeline.\n" in text


def test_the_template_is_added_to_the_projects_own_jobs(set_up: SetUp) -> None:
    files = set_up.shop.project
    pipeline = read_blob(files.git, files.bare_repository, BRANCH, ".gitlab-ci.yml")
    assert pipeline and pipeline.decode().startswith(JOBS)
    assert b'shape: "three-jobs"' in pipeline


def test_token_and_key_are_made_and_kept_as_a_careful_person_would(set_up: SetUp) -> None:
    made = set_up.made
    assert made.secrets["GITLAB_TOKEN"] == {
        "key": "GITLAB_TOKEN",
        "value": MADE_TOKEN,
        "masked": True,
        "masked_and_hidden": True,
        "protected": True,
        "raw": True,
        "environment_scope": "nightshift*",
        "description": f"access token 1, until {made.tokens[0]['expires_at']}",
    }
    assert made.secrets["ANTHROPIC_API_KEY"]["value"] == KEY
    assert made.tokens[0]["access_level"] == 30
    assert made.allowed == {"acme/gitlab-nightshift": [set_up.shop.project.id]}


LABELS = ["docs", "night-shift", "performance", "refactoring", "security", "tests"]


def test_schedule_and_labels_are_made(set_up: SetUp) -> None:
    [night] = set_up.shop.project.schedules
    assert (night.active, dict(night.variables)) == (True, {"NIGHTSHIFT": "true"})
    assert sorted(label.name for label in set_up.shop.project.labels) == LABELS


def test_a_second_init_makes_nothing_twice(set_up: SetUp) -> None:
    shop, made = set_up.shop, set_up.made
    again = init(shop, *ALL)
    assert again.exit_status == 0
    assert len(shop.merge_requests) == len(made.tokens) == len(shop.project.schedules) == 1
    assert "GITLAB_TOKEN exists" in again.stdout and "Night shift exists" in again.stdout
    assert "labels       the merge requests' labels exist\n" in again.stdout
    assert len(shop.project.labels) == len(LABELS)


def test_lines_of_windows_stay_so_in_the_merge_request(tmp_path: Path) -> None:
    jobs = JOBS.replace("\n", "\r\n")
    with project(tmp_path, jobs=jobs) as (shop, _):
        assert init(shop, *ALL).exit_status == 0
        own = shop.project
        proposed = read_blob(own.git, own.bare_repository, BRANCH, ".gitlab-ci.yml")
        assert proposed and proposed.startswith(jobs.encode())
        assert TEMPLATE.encode() in proposed
        assert proposed.count(b"\n") == proposed.count(b"\r\n")


def test_no_rehearsal_is_promised_where_no_pipeline_shows_it(tmp_path: Path) -> None:
    rules = "workflow: {rules: [{if: $CI_COMMIT_BRANCH}]}\n"
    with project(tmp_path, jobs=f"{JOBS}{rules}") as (shop, _):
        assert init(shop, *ALL).exit_status == 0
        text = str(shop.merge_requests[0].description)
        assert (
            "\nThe workflow rules of `.gitlab-ci.yml` keep merge request pipelines from starting, "
            in text
        )
        assert 'add `- if: $CI_PIPELINE_SOURCE == "merge_request_event"`.\n' in text
        assert "nightshift:rehearse" not in text


def test_without_a_merge_request_the_files_are_written_here(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, made):
        done = init(shop, "--gitlab")
        assert done.exit_status == 0, done.stderr
        assert done.stdout.endswith("nights start once they are on the default branch\n")
        assert (shop.checkout / "nightshift.yaml").exists() and made.tokens
        assert shop.merge_requests == []


def test_a_newer_version_proposes_itself(tmp_path: Path) -> None:
    item = f"{{project: acme/gitlab-nightshift, ref: v0.0.9, file: {TEMPLATE}}}"
    with project(tmp_path, jobs=f"include: [{item}]\n{JOBS}") as (shop, _):
        done = init(shop, *ALL)
        assert done.exit_status == 0, done.stderr
        [request] = shop.merge_requests
        assert request.title == f"Update the night shift from v0.0.9 to v{__version__}"
        assert str(request.description).startswith("Merging this moves nights to the newer version")
        assert "rehears" not in done.stdout, "its include does not ask for one"


def test_a_dry_run_changes_nothing_and_shows_all(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, made):
        done = init(shop, *ALL, "--dry-run")
        assert done.exit_status == 0, done.stderr
        assert "create a project access token (Developer" in done.stdout
        assert "would open   a merge request:" in done.stdout
        assert "labels       create night-shift, tests, " in done.stdout
        assert (made.tokens, made.secrets, shop.merge_requests) == ([], {}, [])
        assert shop.project.labels == []
        assert git(shop.checkout, "status", "--porcelain") == ""


def test_where_pipeline_variables_are_forbidden_the_description_makes_a_night(
    tmp_path: Path,
) -> None:
    """As in new groups of GitLab.com; a second try finds that night."""
    with project(tmp_path) as (shop, _):
        shop.project.variables_role = NOBODY
        done = init(shop, *ALL)
        assert done.exit_status == 0, done.stderr
        [night] = shop.project.schedules
        assert (night.description, night.active, night.variables) == ("Night shift", True, {})
        bare = shop.project.bare_repository
        pipeline = read_blob(shop.project.git, bare, BRANCH, ".gitlab-ci.yml")
        assert pipeline and b'      schedule_description: "Night shift" # pipeline var' in pipeline
        assert "with - {if: '$CI_PIPELINE_SCHEDULE_DESCRIPTION == \"Night shift\"'" in done.stdout
        [request] = shop.merge_requests
        assert "New pipeline" not in str(request.description), "whose form has no fields"
        again = init(shop, *ALL)
        assert again.exit_status == 0 and "Night shift exists" in again.stdout
        assert shop.project.schedules == [night]


def test_a_schedule_without_its_variable_is_not_left_behind(tmp_path: Path) -> None:
    """Where GitLab does not show beforehand that it refuses the variable."""
    with project(tmp_path) as (shop, _):
        for _ in range(2):
            shop.gitlab.fail_next(
                "POST", r"/pipeline_schedules/\d+/variables$", 403, {"message": "403 Forbidden"}
            )
            done = init(shop, "--merge-request")
            assert done.exit_status == 0, done.stderr
            assert shop.project.schedules == []
            assert "by hand      GitLab takes no variables of schedules here: allow" in done.stdout
        done = init(shop, "--gitlab")
        assert [each.active for each in shop.project.schedules] == [True]


def test_an_unfinished_schedule_of_an_ended_try_is_replaced(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        own, other = shop.gitlab.users[1], shop.gitlab.users[0]
        for number, owner in enumerate((own, other), 1):
            left = StandinSchedule(number, owner, "Night shift", active=False, variables={})
            shop.project.schedules.append(left)
        assert init(shop, "--gitlab").exit_status == 0
        found = [(each.owner.id, each.active) for each in shop.project.schedules]
        assert found == [(other.id, False), (own.id, True)], "another's is left alone"


def test_more_schedules_than_gitlab_allows_is_told_in_its_words(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        owner = shop.gitlab.users[1]
        shop.project.schedules += [StandinSchedule(n, owner, "b", variables={}) for n in range(10)]
        done = init(shop, "--gitlab")
        assert done.exit_status == 12
        assert "Maximum number of pipeline schedules (10) exceeded" in done.stderr
        del shop.project.schedules[0]
        assert init(shop, "--gitlab").exit_status == 0, "nothing was written that is in its way"


def test_what_is_left_to_people_stands_in_the_merge_request(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, made):
        made.makes_tokens = False
        done = init(shop, "--merge-request")
        assert done.exit_status == 0, done.stderr
        [request] = shop.merge_requests
        todo = str(request.description).partition("## Before you merge")[2].partition("##")[0]
        assert "- token: GitLab refuses to create one (" in todo
        assert "add a service account (on all tiers: Set" in todo
        assert "- model key: store your model key (ANTHROPIC" in todo


def test_what_the_tests_lack_stands_in_the_merge_request(tmp_path: Path) -> None:
    files = {"requirements.txt": "prices", "test_shop.py": "import prices\n"}
    with world(tmp_path, files=files, config="") as shop:
        add_setup(shop.gitlab)
        shop.gitlab.add_token(OWNER, shop.gitlab.users[1], access_level=40)
        assert init(shop, "--merge-request").exit_status == 0
        [request] = shop.merge_requests
        todo = str(request.description).partition("## Before you merge")[2].partition("##")[0]
        assert "- tests: install what the tests need (`python3 -m venv .venv && " in todo


def test_a_token_that_cannot_be_stored_is_revoked(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, made):
        made.refuses_variables = True
        done = init(shop, "--gitlab")
        assert done.exit_status == 12 and "is invalid" in done.stderr
        assert (len(made.tokens), made.revoked) == (1, ["1"])


@pytest.mark.parametrize(
    ("step", "path"), [("schedule", "/pipeline_schedules$"), ("token", "/access_tokens$")]
)
def test_a_refused_step_is_told_in_gitlabs_words_with_what_helps(
    tmp_path: Path, step: str, path: str
) -> None:
    """And not for what the step usually lacks: variables of schedules, tokens of the tier."""
    with project(tmp_path) as (shop, _):
        body = {"message": "You cannot perform write operations on a read-only instance"}
        shop.gitlab.fail_next("POST", path, 403, body)
        done = init(shop, "--merge-request")
        assert done.exit_status == 12
        assert f"E_PUBLISH: {step}: GitLab at " in done.stderr
        assert done.stderr.endswith(
            "read-only instance (GitLab accepts changes again when an administrator ends that)\n"
        )


def test_what_people_have_done_is_left_alone(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        assert init(shop, "--merge-request").exit_status == 0
        bare, head = shop.project.bare_repository, f"refs/heads/{BRANCH}"
        tree = git(bare, "rev-parse", f"{head}^{{tree}}").strip()
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        own = git(bare, *identity, "commit-tree", "-p", head, "-m", "Mine", tree).strip()
        git(bare, "update-ref", head, own)
        done = init(shop, "--merge-request")
        assert (
            done.exit_status == 2
            and "the branch night-shift-onboarding has commits by someone else" in done.stderr
        )
        assert git(bare, "rev-parse", head).strip() == own

        shop.project.merge_requests[0].state = "closed"
        done = init(shop, "--merge-request")
        assert done.exit_status == 2 and "was closed: reopen it, or" in done.stderr
        assert len(shop.merge_requests) == 1


def test_who_may_not_and_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, made):
        for args, token, why in (
            (("--gitlab",), BOT_TOKEN, "is not a Maintainer's"),
            (("--merge-request",), "", "GITLAB_TOKEN is not set"),
            (
                ("--gitlab", "--model-key", "DEPLOY_KEY"),
                OWNER,
                "--model-key: DEPLOY_KEY is not one of",
            ),
        ):
            done = init(shop, *args, token=token)
            assert done.exit_status == 2, args
            assert why in done.stderr and done.stderr.count("\n") == 1
        assert (made.tokens, made.secrets, shop.merge_requests) == ([], {}, [])
        assert git(shop.checkout, "status", "--porcelain") == ""


def test_a_file_that_gitlab_would_refuse_is_seen_before(tmp_path: Path) -> None:
    with project(tmp_path, jobs=f"{JOBS}lint: {{stage: check}}\n") as (shop, made):
        done = init(shop, *ALL)
        assert done.exit_status == 2
        assert done.stderr == (
            "nightshift: E_CONFIG: GitLab would reject .gitlab-ci.yml: jobs:lint config"
            " should implement the script:, run:, or trigger: keyword\n"
        )
        assert (made.tokens, shop.merge_requests) == ([], [])


def test_a_gitlab_that_would_refuse_every_pipeline_is_told(tmp_path: Path) -> None:
    why = (
        "GitLab 16.10.9-ee would refuse every pipeline that includes the template, which needs"
        " 16.11 or newer"
    )
    with project(tmp_path) as (shop, made):
        old = {"version": "16.10.9-ee", "revision": "x"}
        shop.gitlab.fail_next("GET", "/version$", 200, old, times=2)
        done = init(shop, "--gitlab")
        assert (done.exit_status, done.stderr) == (2, f"nightshift: E_CONFIG: {why}\n")
        assert made.tokens == []
        [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["project"]
        assert (row.state, row.text) == ("fail", why)


def test_every_kind_of_a_bad_token_ends_in_one_line(tmp_path: Path) -> None:
    """Of another GitLab is one that this GitLab does not know."""
    with project(tmp_path) as (shop, made):
        rita = shop.gitlab.users[1]
        shop.gitlab.add_token("glpat-Expired1", rita, access_level=40, ended="expired")
        shop.gitlab.add_token("glpat-Revoked1", rita, access_level=40, ended="revoked")
        shop.gitlab.add_token("glpat-Narrow01", rita, ("read_api",), access_level=40)
        shop.gitlab.add_token("glpat-NoRole01", rita, access_level=0)
        shop.gitlab.add_token("glpat-Guest001", rita, access_level=10)
        for token, why in {
            "glpat-Expired1": "it has expired",
            "glpat-Revoked1": "it was revoked",
            "glpat-Narrow01": "lacks the scope api",
            "glpat-NoRole01": "is not a member",
            "glpat-Guest001": "has a role below Developer",
            "glpat-Elsewhere1": "it is mistyped, expired or revoked, or a job token",
            "glpat-with space": "is empty or contains a space or line break",
            "glcbt-64_OfTheJob1": "it is a job token, which cannot open merge requests",
            "": "GITLAB_TOKEN is not set",
        }.items():
            done = init(shop, "--gitlab", token=token)
            assert (done.exit_status, done.stderr.count("\n")) == (2, 1), token
            assert why in done.stderr and "role Developer" not in done.stderr, token
            assert not token or token not in done.stderr + done.stdout

            [row] = ask_gitlab(shop, GITLAB_TOKEN=token)["GitLab"]
            assert (row.state, row.exit_status) == ("fail", 2)
            assert why in row.text and "\n" not in row.text
        whole = json.loads(shop.nightshift("doctor", "--json", GITLAB_TOKEN="").stdout)
        [shown] = [each for each in whole["rows"] if each["name"] == "GitLab"]
        assert (shown, whole["exit_status"]) == (asdict(row), 2)
        assert (made.tokens, made.secrets, shop.merge_requests) == ([], {}, [])
