"""``nightshift init --gitlab`` and ``--merge-request``: the real command, with the stand-in."""

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
        settings = add_setup(shop.gitlab)
        shop.gitlab.add_project("acme/gitlab-nightshift")
        shop.gitlab.add_token(OWNER, shop.gitlab.users[1], access_level=40)
        yield shop, settings


def init(shop: World, *args: str, token: str = OWNER) -> Done:
    done = shop.nightshift("init", *args, GITLAB_TOKEN=token, ANTHROPIC_API_KEY=KEY)
    for secret in (OWNER, KEY, MADE_TOKEN):
        assert secret not in done.stdout + done.stderr
    return done


@dataclass(frozen=True)
class SetUp:
    """A project after ``init`` with all options."""

    shop: World
    settings: ProjectSettings
    done: Done


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    with project(tmp_path_factory.mktemp("set-up")) as (shop, settings):
        yield SetUp(shop, settings, init(shop, *ALL))


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


def test_the_merge_request_adds_the_template(set_up: SetUp) -> None:
    files = set_up.shop.project
    pipeline = read_blob(files.git, files.bare_repository, BRANCH, ".gitlab-ci.yml")
    assert pipeline and pipeline.decode().startswith(JOBS)
    assert b'shape: "three-jobs"' in pipeline


def test_token_and_key_are_stored_masked_and_protected(set_up: SetUp) -> None:
    settings = set_up.settings
    assert settings.secrets["GITLAB_TOKEN"] == {
        "key": "GITLAB_TOKEN",
        "value": MADE_TOKEN,
        "masked": True,
        "masked_and_hidden": True,
        "protected": True,
        "raw": True,
        "environment_scope": "nightshift*",
        "description": f"access token 1, until {settings.tokens[0]['expires_at']}",
    }
    assert settings.secrets["ANTHROPIC_API_KEY"]["value"] == KEY
    assert settings.tokens[0]["access_level"] == 30
    assert settings.allowed == {"acme/gitlab-nightshift": [set_up.shop.project.id]}


LABELS = ["docs", "night-shift", "performance", "refactoring", "security", "tests"]


def test_schedule_and_labels_are_created(set_up: SetUp) -> None:
    [night] = set_up.shop.project.schedules
    assert (night.active, dict(night.variables)) == (True, {"NIGHTSHIFT": "true"})
    assert sorted(label.name for label in set_up.shop.project.labels) == LABELS


def test_a_second_init_creates_nothing_twice(set_up: SetUp) -> None:
    shop, settings = set_up.shop, set_up.settings
    again = init(shop, *ALL)
    assert again.exit_status == 0
    assert len(shop.merge_requests) == len(settings.tokens) == len(shop.project.schedules) == 1
    assert "GITLAB_TOKEN exists" in again.stdout and "Night shift exists" in again.stdout
    assert "labels       the merge requests' labels exist\n" in again.stdout
    assert len(shop.project.labels) == len(LABELS)


def test_the_merge_request_keeps_windows_line_endings(tmp_path: Path) -> None:
    jobs = JOBS.replace("\n", "\r\n")
    with project(tmp_path, jobs=jobs) as (shop, _):
        assert init(shop, *ALL).exit_status == 0
        files = shop.project
        proposed = read_blob(files.git, files.bare_repository, BRANCH, ".gitlab-ci.yml")
        assert proposed and proposed.startswith(jobs.encode())
        assert TEMPLATE.encode() in proposed
        assert proposed.count(b"\n") == proposed.count(b"\r\n")


def test_no_rehearsal_is_promised_without_merge_request_pipelines(tmp_path: Path) -> None:
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


def test_without_a_merge_request_the_files_are_written(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
        done = init(shop, "--gitlab")
        assert done.exit_status == 0, done.stderr
        assert done.stdout.endswith("nights start once they are on the default branch\n")
        assert (shop.checkout / "nightshift.yaml").exists() and settings.tokens
        assert shop.merge_requests == []


def test_an_update_of_the_template_is_proposed(tmp_path: Path) -> None:
    item = f"{{project: acme/gitlab-nightshift, ref: v0.0.9, file: {TEMPLATE}}}"
    with project(tmp_path, jobs=f"include: [{item}]\n{JOBS}") as (shop, _):
        done = init(shop, *ALL)
        assert done.exit_status == 0, done.stderr
        [request] = shop.merge_requests
        assert request.title == f"Update the night shift from v0.0.9 to v{__version__}"
        assert str(request.description).startswith("Merging this moves nights to the newer version")
        assert "rehears" not in done.stdout, "its include does not ask for one"


def test_a_dry_run_changes_nothing_and_shows_all(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
        done = init(shop, *ALL, "--dry-run")
        assert done.exit_status == 0, done.stderr
        assert "create a project access token (Developer" in done.stdout
        assert "would open   a merge request:" in done.stdout
        assert "labels       create night-shift, tests, " in done.stdout
        assert (settings.tokens, settings.secrets, shop.merge_requests) == ([], {}, [])
        assert shop.project.labels == []
        assert git(shop.checkout, "status", "--porcelain") == ""


def test_without_pipeline_variables_the_description_marks_a_night(
    tmp_path: Path,
) -> None:
    """As in new groups of GitLab.com."""
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
        assert "New pipeline" not in str(request.description), "its form accepts no variables"
        again = init(shop, *ALL)
        assert again.exit_status == 0 and "Night shift exists" in again.stdout
        assert shop.project.schedules == [night]


def test_a_schedule_without_its_variable_is_not_left_behind(tmp_path: Path) -> None:
    """If GitLab does not show beforehand that it refuses the variable."""
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


def test_an_unfinished_schedule_is_replaced(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        maintainer, other = shop.gitlab.users[1], shop.gitlab.users[0]
        for number, owner in enumerate((maintainer, other), 1):
            schedule = StandinSchedule(number, owner, "Night shift", active=False, variables={})
            shop.project.schedules.append(schedule)
        assert init(shop, "--gitlab").exit_status == 0
        schedules = [(each.owner.id, each.active) for each in shop.project.schedules]
        assert schedules == [(other.id, False), (maintainer.id, True)], "another's is kept"


def test_too_many_schedules_are_reported_in_gitlabs_words(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        owner = shop.gitlab.users[1]
        shop.project.schedules += [StandinSchedule(n, owner, "b", variables={}) for n in range(10)]
        done = init(shop, "--gitlab")
        assert done.exit_status == 12
        assert "Maximum number of pipeline schedules (10) exceeded" in done.stderr
        del shop.project.schedules[0]
        assert init(shop, "--gitlab").exit_status == 0, "it can be repeated"


def test_the_merge_request_lists_what_is_left_to_people(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
        settings.makes_tokens = False
        done = init(shop, "--merge-request")
        assert done.exit_status == 0, done.stderr
        [request] = shop.merge_requests
        todo = str(request.description).partition("## Before you merge")[2].partition("##")[0]
        assert "- token: GitLab refuses to create one (" in todo
        assert "add a service account (on all tiers: Set" in todo
        assert "- model key: store your model key (ANTHROPIC" in todo


def test_the_merge_request_says_what_the_tests_lack(tmp_path: Path) -> None:
    files = {"requirements.txt": "prices", "test_shop.py": "import prices\n"}
    with world(tmp_path, files=files, config="") as shop:
        add_setup(shop.gitlab)
        shop.gitlab.add_token(OWNER, shop.gitlab.users[1], access_level=40)
        assert init(shop, "--merge-request").exit_status == 0
        [request] = shop.merge_requests
        todo = str(request.description).partition("## Before you merge")[2].partition("##")[0]
        assert "- tests: install what the tests need (`python3 -m venv .venv && " in todo


def test_a_token_that_cannot_be_stored_is_revoked(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
        settings.refuses_variables = True
        done = init(shop, "--gitlab")
        assert done.exit_status == 12 and "is invalid" in done.stderr
        assert (len(settings.tokens), settings.revoked) == (1, ["1"])


@pytest.mark.parametrize(
    ("step", "path"), [("schedule", "/pipeline_schedules$"), ("token", "/access_tokens$")]
)
def test_a_refused_step_is_reported_with_its_remedy(tmp_path: Path, step: str, path: str) -> None:
    """Not with the usual reason: forbidden variables, or a tier without tokens."""
    with project(tmp_path) as (shop, _):
        body = {"message": "You cannot perform write operations on a read-only instance"}
        shop.gitlab.fail_next("POST", path, 403, body)
        done = init(shop, "--merge-request")
        assert done.exit_status == 12
        assert f"E_PUBLISH: {step}: GitLab at " in done.stderr
        assert done.stderr.endswith(
            "read-only instance (GitLab accepts changes again when an administrator ends that)\n"
        )


def test_commits_and_decisions_of_people_are_kept(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, _):
        assert init(shop, "--merge-request").exit_status == 0
        bare, head = shop.project.bare_repository, f"refs/heads/{BRANCH}"
        tree = git(bare, "rev-parse", f"{head}^{{tree}}").strip()
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        commit = git(bare, *identity, "commit-tree", "-p", head, "-m", "Mine", tree).strip()
        git(bare, "update-ref", head, commit)
        done = init(shop, "--merge-request")
        assert (
            done.exit_status == 2
            and "the branch night-shift-onboarding has commits by someone else" in done.stderr
        )
        assert git(bare, "rev-parse", head).strip() == commit

        shop.project.merge_requests[0].state = "closed"
        done = init(shop, "--merge-request")
        assert done.exit_status == 2 and "was closed: reopen it, or" in done.stderr
        assert len(shop.merge_requests) == 1


def test_missing_rights_and_wrong_options_are_one_line(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
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
        assert (settings.tokens, settings.secrets, shop.merge_requests) == ([], {}, [])
        assert git(shop.checkout, "status", "--porcelain") == ""


def test_an_invalid_pipeline_file_is_found_first(tmp_path: Path) -> None:
    with project(tmp_path, jobs=f"{JOBS}lint: {{stage: check}}\n") as (shop, settings):
        done = init(shop, *ALL)
        assert done.exit_status == 2
        assert done.stderr == (
            "nightshift: E_CONFIG: GitLab would reject .gitlab-ci.yml: jobs:lint config"
            " should implement the script:, run:, or trigger: keyword\n"
        )
        assert (settings.tokens, shop.merge_requests) == ([], [])


def test_a_gitlab_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    why = (
        "GitLab 16.10.9-ee would refuse every pipeline that includes the template, which needs"
        " 16.11 or newer"
    )
    with project(tmp_path) as (shop, settings):
        old = {"version": "16.10.9-ee", "revision": "x"}
        shop.gitlab.fail_next("GET", "/version$", 200, old, times=2)
        done = init(shop, "--gitlab")
        assert (done.exit_status, done.stderr) == (2, f"nightshift: E_CONFIG: {why}\n")
        assert settings.tokens == []
        [row] = ask_gitlab(shop, GITLAB_TOKEN=OWNER)["project"]
        assert (row.state, row.text) == ("fail", why)


def test_every_bad_token_is_one_line(tmp_path: Path) -> None:
    with project(tmp_path) as (shop, settings):
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
        document = json.loads(shop.nightshift("doctor", "--json", GITLAB_TOKEN="").stdout)
        [shown] = [each for each in document["rows"] if each["name"] == "GitLab"]
        assert (shown, document["exit_status"]) == (asdict(row), 2)
        assert (settings.tokens, settings.secrets, shop.merge_requests) == ([], {}, [])
