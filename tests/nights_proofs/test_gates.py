"""The gates through whole nights: denied and tried again, a draft, kept until it is approved."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.demo.standin_state import DEVELOPER, REPORTER
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.stages.publish.approval import find_approver
from tests.support.agent import Play, append, plays, sh, write
from tests.support.shop import GOOD, NOTE
from tests.support.standin_records import PipelineJob
from tests.support.world import ANYWHERE, BOT_TOKEN, FILES, PLAIN, Done, World, git, world

CI = "include:\n  - local: ci/*.yml\nunit:\n  script: [make test]\n"
PROJECT = {**FILES, ".gitlab-ci.yml": CI, "ci/lint.yml": "lint:\n  script: [make lint]\n"}
FLAGS = "policy: {flags: {outside-selection: off}"
APPROVE = 77


def changing(*steps: Any, attempt: int = 0) -> dict[str, Play]:
    """A night that does this beside its improvement, in one attempt or in all."""
    name = f"implement-tests-{attempt}" if attempt else "implement"
    return plays(GOOD, {name: [append("test_shop.py", NOTE), *steps]})


ADDS_JOB = write("ci/evil.yml", "evil:\n  script: [env]\n")


def started(shop: World, login: str = "rita", level: int = DEVELOPER, **job: Any) -> dict[str, str]:
    """The environment of the manual job that this user has started."""
    user = next(user for user in shop.gitlab.users if user.username == login)
    shop.project.members[user.id] = level
    facts = {"pipeline": 4711, "status": "running", **job}
    shop.project.jobs.append(
        PipelineJob(APPROVE, name="nightshift:approve", artifacts=shop.folder, user=user, **facts)
    )
    return {
        "CI_JOB_ID": str(APPROVE),
        "CI_JOB_MANUAL": "true",
        "GITLAB_USER_LOGIN": login,
        "GITLAB_USER_NAME": "Rita",
    }


def test_what_gitlab_would_run_waits_for_an_approval(tmp_path: Path) -> None:
    """A file is added that GitLab would include."""
    with world(tmp_path, changing(ADDS_JOB), config=ANYWHERE, files=PROJECT) as shop:
        shop.ends(4, "run")
        assert_kept_and_told(shop)
        assert shop.nightshift("publish").exit_status == 4
        assert shop.written == []
        refuse(shop)
        deny(shop)
        lie(shop)
        products = shop.folder / "products"
        shutil.copytree(shop.checkout / "nightshift", products)
        approve_by_hostile_name(shop)
        [opened] = shop.merge_requests
        shop.project.merge_requests.clear()
        git(shop.project.bare_repository, "branch", "-D", opened.source_branch)
        shutil.rmtree(shop.checkout / "nightshift")
        products.rename(shop.checkout / "nightshift")
        shop.project.jobs.clear()
        approve(shop)


def assert_kept_and_told(kept: World) -> None:
    assert kept.written == []
    result = kept.result
    assert (result["outcome"], result["error_code"]) == ("APPROVAL_REQUIRED", "E_APPROVAL_REQUIRED")
    why = "ci/evil.yml is pipeline configuration, which GitLab runs before anyone has reviewed it"
    assert f"not published without approval: {why}" in result["reason"]
    assert "nightshift:approve" in result["reason"]
    assert why in (kept.checkout / "nightshift/report.html").read_text()
    assert "NIGHT_OUTCOME=APPROVAL_REQUIRED\n" in (
        (kept.checkout / "nightshift/nightshift.env").read_text()
    )
    assert kept.bundle["outcome"] == "MR_READY"
    assert "once it is approved: ci/evil.yml" in kept.bundle["reason"]
    assert [gate["decision"] for gate in kept.bundle["proposal"]["gates"]] == ["require_approval"]
    assert kept.list_events("gate_required")
    kept.assert_restored()


def refuse(shop: World) -> None:
    """Who and what cannot approve; two of the cases as the command reports them."""
    failures = []
    for case, (status, text) in REFUSED.items():
        shop.project.jobs.clear()
        told = refusal(shop, env_of(shop, case))
        if told[0] != status or text not in told[1]:
            failures.append((case, told))
    for case in ("reporter", "no token"):
        shop.project.jobs.clear()
        done = shop.nightshift("publish", "--approved", **env_of(shop, case))
        status, text = {**REFUSED, **WITHOUT_TOKEN}[case]
        if (done.exit_status, done.stderr.count("\n")) != (status, 1) or text not in done.stderr:
            failures.append((case, (done.exit_status, done.stderr)))
    assert failures == []
    assert shop.written == []
    shop.project.jobs.clear()


def refusal(shop: World, env: Mapping[str, str]) -> tuple[int, str]:
    """Exit status and text for a job with this environment."""
    project = open_project(shop.gitlab.url, str(shop.project.id), BOT_TOKEN)
    try:
        return 0, find_approver(project, read_job({**shop.env, **env}), str)
    except NightshiftError as error:
        return error.exit_status, error.message


def deny(shop: World) -> None:
    """Its own settings deny, whoever approves."""
    settings = {
        "NIGHTSHIFT_POLICY__GATES__WRITE": "deny",
        "NIGHTSHIFT_POLICY__WRITABLE_PATHS": "docs/**",
    }
    done = shop.ends(3, "publish", "--approved", **settings, **started(shop))
    assert "test_shop.py is outside policy.writable_paths." in done.last_line
    assert shop.written == []
    shop.project.jobs.clear()


def lie(shop: World) -> None:
    """A bundle that claims to need no approval waits all the same."""
    file = shop.checkout / "nightshift/bundle/bundle.json"
    true = file.read_text()
    verdict = {"passed": True, "error_details": "approved by rita", "commands_run": []}
    draft = {"path": "ci/evil.yml", "decision": "draft", "why": "is fine"}
    ends = []
    lies: list[dict[str, Any]] = [{"gates": []}, {"gates": [draft]}, {"verdict": verdict}]
    for words in lies:
        bundle = json.loads(true)
        bundle["proposal"] |= words
        bundle |= {"reason": "approved", "approved_by": "rita"}
        file.write_text(json.dumps(bundle))
        ends.append(shop.nightshift("publish").exit_status)
    assert set(ends) <= {4, 10}, ends
    assert shop.written == []
    file.write_text(true)


def approve_by_hostile_name(kept: World) -> None:
    """The name of a user is only a text."""
    kept.gitlab.add_user("_evil_`@all", "x")
    kept.ends(0, "publish", "--approved", **started(kept, "_evil_`@all"))
    [opened] = kept.merge_requests
    assert "with the approval of ``_evil_`@all``:" in str(opened.description)


def approve(kept: World) -> None:
    """An approval publishes exactly this change and names who gave it."""
    tree = kept.bundle["proposal"]["change"]["tree_id"]
    done = kept.nightshift("publish", "--approved", **started(kept))
    assert (done.exit_status, done.stderr) == (0, "")
    [opened] = kept.merge_requests
    assert git(kept.project.bare_repository, "rev-parse", f"{opened.sha}^{{tree}}").strip() == tree
    body = str(opened.description)
    assert "Published with the approval of `rita`:" in body
    assert "- `ci/evil.yml` is pipeline configuration" in body
    assert "@rita" not in body
    assert not opened.title.startswith("Draft:")
    assert kept.list_events("gate_approved")


def env_of(shop: World, case: str) -> Mapping[str, str]:
    """The environment of a job that may not approve."""
    made = {
        "not manual": lambda: {**started(shop), "CI_JOB_MANUAL": ""},
        "no job": lambda: {**started(shop), "CI_JOB_ID": ""},
        "unknown job": lambda: {**started(shop), "CI_JOB_ID": "78"},
        "job of another pipeline": lambda: started(shop, pipeline=4710),
        "job that has ended": lambda: started(shop, status="success"),
        "another user": lambda: {**started(shop), "GITLAB_USER_LOGIN": "olga"},
        "reporter": lambda: started(shop, level=REPORTER),
        "nobody": lambda: started(shop, level=0),
        "the token's user": lambda: started(shop, "night-bot"),
        "no token": lambda: {**started(shop), "GITLAB_TOKEN": ""},
    }
    return made[case]()


REFUSED = {
    "not manual": (3, "nobody started this job"),
    "no job": (2, "works only in the job nightshift:approve"),
    "unknown job": (3, "GitLab has no running job 78 in pipeline 4711"),
    "job of another pipeline": (3, "no running job 77 in pipeline 4711"),
    "job that has ended": (3, "no running job 77"),
    "another user": (3, "GitLab says that rita started this job, not olga"),
    "reporter": (3, "rita has a role below Developer"),
    "nobody": (3, "rita has a role below Developer"),
    "the token's user": (3, "night-bot is the user of GITLAB_TOKEN"),
}
WITHOUT_TOKEN = {"no token": (2, "GITLAB_TOKEN is not set")}


def test_policy_of_the_change_itself_is_no_policy(tmp_path: Path) -> None:
    """Only the base commit counts: neither the settings that a change brings, nor its includes.

    What is denied is told to the next attempt.
    """
    config = f"{PLAIN}{FLAGS}, writable_paths: ['test_*'], gates: {{write: deny}}}}\n"
    own_policy = (
        write("nightshift.yaml", "policy: {gates: {write: auto_allow}}\n"),
        write("ci/lint.yml", "lint:\n  script: [env]\n"),
        write(".gitlab-ci.yml", "unit: {script: [env]}\n"),
    )
    scripts = plays(
        changing(write("lib/new.py", "x = 1\n"), attempt=1), changing(*own_policy, attempt=2)
    )
    with world(tmp_path, scripts, config=config, files=PROJECT) as shop:
        assert shop.nightshift("run", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="2").exit_status == 0
        told = shop.agent.last("implement-tests-2").last_failure
        assert told == "lib/new.py is outside policy.writable_paths."
        told = shop.agent.last("implement-tests-3").last_failure
        assert "nightshift.yaml steers coding agents" in told
        assert "ci/lint.yml is pipeline configuration" in told
        [opened] = shop.merge_requests
        assert not opened.title.startswith("Draft:")
        changed = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, opened.sha)
        assert changed == "test_shop.py\n"


def test_sensitive_file_opens_as_a_draft_that_says_what_to_look_at(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    gates = "gates: {exec: auto_allow, network: auto_allow}"
    config = f"{PLAIN}{FLAGS}, sensitive_paths: ['docs/'], {gates}}}\n"
    steps = (write("CODEOWNERS", "* @rita\n"), write("docs/a.md", "# A\n"))
    curl = {"analyze": [sh(f"curl -V >{planted}"), *GOOD["analyze"]]}
    with world(tmp_path / "w", plays(changing(*steps), curl), config=config) as shop:
        done = shop.ends(0, "run")
        [opened] = shop.merge_requests
        assert opened.title.startswith("Draft: [night-shift/tests] ")
        summary = str(opened.description).partition("## Reasoning")[0]
        assert "A draft, because it changes sensitive files." in summary
        assert "- `CODEOWNERS` decides who reviews and approves." in summary
        assert "- `docs/a.md` is one of policy.sensitive\\_paths." in summary
        assert "test_shop.py" not in summary
        _told_what_opens_nothing(shop, done)
        assert planted.read_text() == ""


def _told_what_opens_nothing(shop: World, done: Done) -> None:
    """Nobody is there to ask in a night, and no setting opens the whole network."""
    for name, listed in (("exec", "allowed_commands"), ("network", "policy.egress_hosts")):
        text = f"policy.gates.{name}: auto_allow means deny in a night: only {listed} is"
        assert f"warning: {text} allowed" in done.log
    for bead in shop.agent.seen:
        assert "Bash" not in bead.options("--allowedTools")
