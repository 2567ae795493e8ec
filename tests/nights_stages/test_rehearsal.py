"""A rehearsal: everything of a night that costs no token, and a verdict."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.shop import GOOD
from tests.support.standin_records import PipelineJob
from tests.support.world import BOT_TOKEN, CLAUDE, PROVING, Done, World, world

KEYLESS = {"ANTHROPIC_API_KEY": ""}
VERSION = "1.2.3 (a CLI of this test)"


def rehearsed(shop: World, **env: str) -> Done:
    cli = shop.folder / "bin" / "claude"
    cli.parent.mkdir(exist_ok=True)
    cli.write_text(f'#!/bin/sh\n[ "$*" = --version ] && echo "{VERSION}"\n')
    cli.chmod(0o755)
    env = {"PATH": f"{cli.parent}:{shop.env['PATH']}", **env}
    done = shop.nightshift("run", "--rehearse", **env)
    assert "Traceback" not in done.stdout + done.stderr
    assert shop.agent.seen == []
    assert shop.written == []
    assert shop.result["beads"] == []
    assert (shop.result["total_cost_usd"], shop.merge_requests) == (0, [])
    shop.assert_restored()
    return done


def test_a_job_that_is_ready(tmp_path: Path) -> None:
    """Also on a day without a night, and where this pipeline has had one."""
    with world(tmp_path, GOOD, config=PROVING) as shop:
        done = rehearsed(shop)
        assert done.exit_status == 0, done.log
        assert "a rehearsal: no agent is started, nothing is spent" in done.log
        assert ("make test", 0) in shop.ran
        assert f"agent claude_code: {VERSION}" in done.log
        assert "seen from inside the sandbox: git, make; agent_paths: none" in done.log
        assert "prompts, in characters: analyze " in done.log
        assert "○ SKIPPED · rehearsed: a night can start here. Next: a dry run" in done.last_line

        (tools := tmp_path / "tools").mkdir()
        given = {"NIGHTSHIFT_VERIFY_COMMANDS": "make test,git --version"}
        given |= {"NIGHTSHIFT_AGENT_PATHS": str(tools)}
        saturday = rehearsed(shop, CI_PIPELINE_CREATED_AT="2026-11-21T01:00:00Z", **given)
        assert saturday.exit_status == 0
        assert shop.ran == [("make test", 0), ("git --version", 0)]
        assert_each_look_has_a_log_of_its_own(saturday, tools)
        quiet = rehearsed(shop, NIGHTSHIFT_QUIET_DATES="2026-11-16", NIGHTSHIFT_REHEARSE="true")
        assert "(today it would not: 2026-11-16 is a quiet date)" in quiet.last_line


def assert_each_look_has_a_log_of_its_own(done: Done, tools: Path) -> None:
    """The redactor takes no second log of a name, and the job's log would say so."""
    assert f"agent_paths: {tools}" in done.log
    assert "not accepted" not in done.log


@pytest.mark.parametrize("lacking", [(), ("POST projects/{id}/labels",)])
def test_a_fine_grained_token_shows_in_a_rehearsal_whether_it_may_write(
    tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    """GitLab does not list what it may: it makes the night's label, or says what it lacks."""
    with world(tmp_path, GOOD, config=PROVING) as shop:
        token = shop.gitlab.tokens[0]
        assert token.value == BOT_TOKEN
        scopes = frozenset({"granular"})
        shop.gitlab.tokens[0] = replace(token, scopes=scopes, lacking=frozenset(lacking))
        done = shop.nightshift("run", "--rehearse")
        labels = [label.name for label in shop.project.labels]
        if lacking:
            assert (done.exit_status, labels) == (2, [])
            assert "GITLAB_TOKEN may not write: label night-shift could not be" in done.last_line
        else:
            assert labels == ["night-shift"], done.log
            assert "may write: it has made the label night-shift" in done.log


def test_what_is_missing_is_told_together(tmp_path: Path) -> None:
    """No key, tests that fail, programs that are not there: it goes on to the end."""
    red = {"NIGHTSHIFT_VERIFY_COMMANDS": "test -e missing.txt"}
    with world(tmp_path, GOOD, config=PROVING) as shop:
        done = rehearsed(shop, **KEYLESS)
        assert done.exit_status == 5
        assert "rehearsed: one thing to fix before a night: no model key: set" in done.last_line
        assert ("make test", 0) in shop.ran
        assert "prompts, in characters: " in done.log

        done = rehearsed(shop, **red, NIGHTSHIFT_ALLOWED_COMMANDS="git,sbt compile,make test")
        assert done.exit_status == 13
        assert "⚠ SKIPPED · E_INCOMPLETE · rehearsed: 2 things to fix" in done.last_line
        assert "verify_commands fail on the untouched checkout: `test -e missi" in done.last_line
        assert "allowed_commands: not found in the commands' environment: sbt" in done.last_line

        done = rehearsed(shop, NIGHTSHIFT_AGENT_EXECUTABLE="klaude", **red)
        assert done.exit_status == 5
        assert "2 things to fix before a night: no agent CLI: klaude is not on" in done.last_line
        done = rehearsed(shop, NIGHTSHIFT_VERIFY_COMMANDS="pytst -q", **KEYLESS)
        assert "no model key" in done.last_line
        assert "; verify_commands: pytst " in done.last_line


def test_mistakes_of_the_plan_end_it(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert rehearsed(shop, NIGHTSHIFT_REVIEWER="rito").exit_status == 2
        assert rehearsed(shop, GITLAB_TOKEN="").exit_status == 2


def test_the_sandbox_is_proved(tmp_path: Path) -> None:
    """In the tier of this machine; a CLI that does not run inside is told."""
    broken = tmp_path / "w" / "broken"
    with world(tmp_path / "w", GOOD, config=PROVING) as shop:
        for folder in (tmp_path / "w", tmp_path / "w" / "builds", tmp_path / "w" / "tmp"):
            folder.chmod(0o755)
        real = {"NIGHTSHIFT_ISOLATION": "auto", "NIGHTSHIFT_AGENT_EXECUTABLE": str(CLAUDE)}
        done = shop.ends(0, "run", "--rehearse", **real)
        assert "sandbox attacked from inside in " in done.log
        assert "(Claude Code)" in done.log
        broken.write_text("#!/bin/sh\nexit 3\n")
        broken.chmod(0o755)
        done = shop.ends(5, "run", "--rehearse", NIGHTSHIFT_AGENT_EXECUTABLE=str(broken))
        assert f"does not run in the sandbox: {broken}: exit status 3" in done.last_line


def test_in_three_jobs(tmp_path: Path) -> None:
    """Each job by the same variable; publish reports it."""
    with world(tmp_path, GOOD, config=PROVING) as shop:
        env = {"NIGHTSHIFT_REHEARSE": "true", "CI_JOB_NAME": "nightshift:plan"}
        assert shop.nightshift("plan", **env).exit_status == 0
        assert shop.nightshift("work", **env, **KEYLESS, GITLAB_TOKEN="").exit_status == 5
        kept = shop.folder / "artifacts"
        subprocess.run(["cp", "-r", shop.checkout, kept], check=True)
        shop.project.jobs.append(PipelineJob(7, 4711, "nightshift:work", kept))
        done = shop.ends(5, "publish", "--from-job", "nightshift:work", **env)
        assert "rehearsed: one thing to fix before a night: no model key" in done.last_line
        assert shop.written == []


def test_in_a_merge_requests_pipeline(tmp_path: Path) -> None:
    """It has no protected variable and is not on the default branch: what that hides is told."""
    of_it = {
        **{"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_IID": "7"},
        **{"CI_COMMIT_BRANCH": "", "CI_COMMIT_REF_NAME": "switch-it-on"},
        "NIGHTSHIFT_TARGET_BRANCH": "switch-it-on",  # as the template's job sets it
    }
    with world(tmp_path, GOOD, config=PROVING) as shop:
        done = rehearsed(shop, NIGHTSHIFT_DRY_RUN="true", GITLAB_TOKEN="", **of_it)
        assert done.exit_status == 0, done.log
        assert "not known: earlier and open merge requests (no GITLAB_TOKEN)" in done.log
        assert ("make test", 0) in shop.ran
