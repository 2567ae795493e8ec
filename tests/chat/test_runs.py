"""From a task in the chat to its result, over GitLab's stand-in."""

import asyncio
import dataclasses
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.chat import discord, server
from gitlab_nightshift.demo.standin_state import DEVELOPER, StandinMergeRequest
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.settings.load import load_settings
from tests.chat.tools import (
    ADA,
    APPLICATION,
    BOT_TOKEN,
    CHANGE,
    CHANNEL,
    EVE,
    GITLAB_TOKEN,
    MESSAGE,
    TASK,
    TOKEN,
    Chat,
    Json,
    Sent,
    chat,
    chat_settings,
    coder,
    press,
    result,
    run,
    shop,
    write_artifacts,
)
from tests.support.standin import FullStandin
from tests.support.standin_pipelines import settle
from tests.support.standin_records import FullProject

ANSWER = f"/webhooks/{APPLICATION}/{TOKEN}/messages/@original"
POSTED = f"/channels/{CHANNEL}/messages"


@dataclass
class Scene:
    """A chat service and its project."""

    chat: Chat
    gitlab: FullStandin
    project: FullProject
    folder: Path

    async def ask(self, sent: Json) -> None:
        assert await self.chat.ask(sent) == {"type": 5}

    async def start(self) -> None:
        """Ask for a task, and wait until its pipeline is started."""
        await self.ask(coder())
        await self.nth(1)

    async def nth(self, number: int) -> Sent:
        return await self.chat.discord.nth(number)

    async def wait_for_polls(self) -> None:
        """Wait until the service has read the pipeline's jobs two more times."""
        before = self._count_polls()
        while self._count_polls() < before + 2:
            await asyncio.sleep(0.01)

    def _count_polls(self) -> int:
        return sum(request.path.endswith("/jobs") for request in self.gitlab.requests)

    def end(self, outcome: Outcome, status: str = "success", job: str = "nightshift") -> None:
        """End the job with the result that a run leaves."""
        url = f"{self.project.web_url}/-/merge_requests/1"
        urls = {"mr_url": url} if outcome is Outcome.MR_CREATED else {}
        self.end_with(write_artifacts(self.folder / job, result(outcome, **urls)), status, job)

    def end_with(self, artifacts: Path, status: str = "success", job: str = "nightshift") -> None:
        settle(self.project, job, status, artifacts)


@asynccontextmanager
async def scene(tmp_path: Path, level: int = 40, **timing: Any) -> AsyncIterator[Scene]:
    with FullStandin(tmp_path / "gitlab") as gitlab:
        project = shop(gitlab, level)
        async with chat(chat_settings(gitlab.url), **timing) as here:
            yield Scene(here, gitlab, project, tmp_path)
        assert gitlab.errors == []


def in_scene(body: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test from a coroutine function, whose first argument is a scene. A parameter ``level`` is
    also the access level of the scene's token."""

    def test(tmp_path: Path, **arguments: Any) -> None:
        async def run_body() -> None:
            async with scene(tmp_path, arguments.get("level", 40)) as here:
                await body(here, **arguments)

        run(run_body)

    _, *parameters = inspect.signature(body).parameters.values()
    folder = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    test.__signature__ = inspect.Signature([folder, *parameters])  # type: ignore[attr-defined]
    test.__doc__ = body.__doc__
    return test


# --- starting a run -------------------------------------------------------------------------------


@in_scene
async def test_a_task_becomes_a_pipeline_and_its_result_a_message(here: Scene) -> None:
    await here.ask(coder())
    first = await here.nth(1)
    (pipeline,) = here.project.pipelines
    assert (first.method, first.path) == ("PATCH", ANSWER)
    assert first.text == f"<@{ADA}>: {TASK}\nPipeline <{pipeline.web_url}> is started."
    assert pipeline.ref == "main"
    assert pipeline.variables == {"NIGHTSHIFT": "true", "NIGHTSHIFT_TASK": TASK}

    settle(here.project, "nightshift", "running")
    await here.wait_for_polls()
    assert len(here.chat.discord.sent) == 1
    here.end(Outcome.MR_CREATED)
    last = await here.nth(2)
    assert (last.method, last.path) == ("POST", POSTED)
    assert last.authorization == f"Bot {BOT_TOKEN}"
    assert last.body["message_reference"]["message_id"] == MESSAGE
    assert last.text.split("\n") == [
        "**Done: a merge request is open**",
        f"<{here.project.web_url}/-/merge_requests/1>",
        "Round prices to whole cents",
        "2 files changed, +12 -3:",
        "- `shop.py`",
        "- `test_shop.py`",
        "passed: `make test`",
        f"$1.25, 10 min, <{pipeline.web_url}>",
    ]
    assert last.custom_ids == []
    assert all(each.body["allowed_mentions"] == {"parse": []} for each in (first, last))


@in_scene
async def test_an_option_overrides_a_flag_in_the_task(here: Scene) -> None:
    task = f"{TASK} --dry-run --model small --test other"
    await here.ask(coder(task, provider="codex", model="big", test="unit -k  cents"))
    text = (await here.nth(1)).text
    assert "provider `codex`, model `big`, test `unit -k cents`, dry run" in text
    sent = dict(here.project.pipelines[0].variables)
    assert (sent["NIGHTSHIFT_TASK"], sent["NIGHTSHIFT_AGENT"]) == (TASK, "codex")
    assert sent["NIGHTSHIFT_DRY_RUN"] == "true"
    assert sent["NIGHTSHIFT_TASK_TEST"] == "unit -k cents"
    read = load_settings(sent)  # as the pipeline's job does
    assert (read.task, read.agent, read.dry_run) == (TASK, "codex", True)
    assert (read.task_test, read.models.verify) == ("unit -k cents", "big")
    models = {value for name, value in sent.items() if "MODELS" in name}
    assert models == {"big"}


@in_scene
async def test_gitlab_expands_no_variable_in_a_task(here: Scene) -> None:
    """Nor does the runner: ``$$`` and ``%%`` are escapes of ``$`` and ``%``."""
    await here.ask(coder("print $GITLAB_TOKEN ${GITLAB_TOKEN} %GITLAB_TOKEN%"))
    await here.nth(1)
    task = here.project.pipelines[0].variables["NIGHTSHIFT_TASK"]
    assert task == "print $$GITLAB_TOKEN $${GITLAB_TOKEN} %%GITLAB_TOKEN%%"
    await here.ask(coder("raise it by 5% and 7%"))
    await here.nth(2)
    task = here.project.pipelines[1].variables["NIGHTSHIFT_TASK"]
    assert task == "raise it by 5% and 7%"


@in_scene
async def test_a_hostile_task_has_no_effect_in_the_chat(here: Scene) -> None:
    task = f"@everyone <@{EVE}> [x](https://evil.example) {GITLAB_TOKEN} " + "y" * 3000
    await here.ask(coder(task))
    text = (await here.nth(1)).text
    shown = text.split(": ", 1)[1]
    assert "@everyone" not in shown and "://evil" not in shown and GITLAB_TOKEN not in text
    assert f"\\<@\u200b{EVE}\\>" in shown and len(text) < 1900


@pytest.mark.parametrize(
    ("level", "change", "parts"),
    [
        (DEVELOPER, {}, ("sufficient permission to run a pipeline", "allowed to push or merge")),
        (40, {"variables_role": 50}, ("set pipeline variables", "Minimum role to use")),
        (40, {"pipeline_jobs": {}}, ("prevented any jobs", "template included")),
        (40, {"default_branch": "gone"}, ("Reference not found", "no branch gone")),
        (20, {}, ("403 Forbidden", "role Developer")),
        (0, {}, ("404 Project Not Found",)),
    ],
)
@in_scene
async def test_the_reason_for_a_missing_pipeline_is_shown(
    here: Scene, level: int, change: dict[str, Any], parts: tuple[str, ...]
) -> None:
    for name, value in change.items():
        setattr(here.project, name, value)
    await here.ask(coder())
    message = await here.nth(1)
    assert message.path == ANSWER and "No pipeline: " in message.text
    assert all(part in message.text for part in parts), message.text
    assert here.project.pipelines == []


@in_scene
async def test_no_token_is_logged(here: Scene) -> None:
    here.gitlab.tokens.clear()
    here.chat.discord.statuses = [403]
    await here.ask(coder())
    await here.chat.logged("Discord answered 403")
    lines = "\n".join(here.chat.log)
    assert "no pipeline for" in lines
    for secret in (BOT_TOKEN, GITLAB_TOKEN, TOKEN):
        assert secret not in lines


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "headline"),
    [
        (Outcome.NO_IMPROVEMENT, "Nothing was changed"),
        (Outcome.MR_READY, "not published (dry run)"),
        (Outcome.SKIPPED, "Skipped"),
    ],
)
@in_scene
async def test_other_outcomes_are_shown(here: Scene, outcome: Outcome, headline: str) -> None:
    await here.start()
    why = result(outcome, reason="because @everyone said so", total_cost_usd=None)
    here.end_with(write_artifacts(here.folder / "a", why, change=None))
    text = (await here.nth(2)).text
    assert headline in text and "because @\u200beveryone said so" in text
    assert "$" not in text and "changed, +" not in text


@in_scene
async def test_a_dry_run_shows_its_patch(here: Scene) -> None:
    await here.start()
    artifacts = write_artifacts(here.folder / "a", result(Outcome.MR_READY, reason="ready"))
    (artifacts / "nightshift/bundle/change.patch").write_text(f"+a = 1\n+key = {GITLAB_TOKEN}\n")
    here.end_with(artifacts)
    text = (await here.nth(2)).text
    assert "```diff\n+a = 1\n+key = " in text and GITLAB_TOKEN not in text


@in_scene
async def test_failures_are_shown_and_long_lists_cut(here: Scene) -> None:
    change = dataclasses.replace(CHANGE, files=tuple(f"f{n}`x`" for n in range(14)))
    commands = (CommandResult("make test", 1, 1.0), *[CommandResult("x" * 400, 0, 1.0)] * 5)
    await here.start()
    failed = result(Outcome.FAILED, error_code="E_PUBLISH", reason="r" * 5000)
    here.end_with(write_artifacts(here.folder / "a", failed, change, commands), "failed")
    text = (await here.nth(2)).text
    assert "**Failed** (E\\_PUBLISH)" in text
    assert "failed: `make test`" in text and "and 1 more, 0 failed" in text
    assert "- `f0'x'`" in text and "- and 4 more" in text
    assert len(text) <= 1900


@in_scene
async def test_text_of_an_agent_has_no_effect_in_the_chat(here: Scene) -> None:
    await here.start()
    url = "https://evil.example/-/merge_requests/1"
    evil = result(Outcome.MR_CREATED, mr_url=url, reason=f"<@{EVE}> {BOT_TOKEN}")
    title = "[x](https://evil.example) @here"
    here.end_with(write_artifacts(here.folder / "a", evil, title=title))
    text = (await here.nth(2)).text
    assert "evil.example" in text and "://evil" not in text
    assert "@here" not in text and f"<@{EVE}>" not in text and BOT_TOKEN not in text


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[" * 90_000, b"[]", b'{"outcome": "DONE"}', b"\xff\xfe", b" " * 4_000_001]
)
@in_scene
async def test_an_invalid_result_counts_as_none(here: Scene, data: bytes) -> None:
    await here.start()
    (here.folder / "a" / "nightshift").mkdir(parents=True)
    (here.folder / "a" / "nightshift" / "result.json").write_bytes(data)
    here.end_with(here.folder / "a", "failed")
    text = (await here.nth(2)).text
    assert "without a result" in text
    assert here.project.pipelines[0].web_url in text


@in_scene
async def test_a_job_without_artifacts_has_no_result(here: Scene) -> None:
    await here.start()
    settle(here.project, "nightshift", "canceled")
    assert "ended without a result" in (await here.nth(2)).text


@in_scene
async def test_publish_ends_a_run_of_three_jobs(here: Scene) -> None:
    names = ("nightshift:plan", "nightshift:work", "nightshift:publish", "build")
    here.project.pipeline_jobs = dict.fromkeys(names, "created")
    await here.start()
    here.end(Outcome.MR_READY, job="nightshift:work")
    await here.wait_for_polls()
    assert len(here.chat.discord.sent) == 1
    here.end(Outcome.MR_CREATED, job="nightshift:publish")
    assert "a merge request is open" in (await here.nth(2)).text


@in_scene
async def test_without_the_templates_names_all_jobs_have_to_end(here: Scene) -> None:
    here.project.pipeline_jobs = {"our-night": "running", "deploy": "manual"}
    await here.start()
    here.end(Outcome.MR_CREATED, job="our-night")
    assert "a merge request is open" in (await here.nth(2)).text


@in_scene
async def test_an_error_of_gitlab_is_retried_at_the_next_poll(here: Scene) -> None:
    await here.start()
    here.gitlab.fail_next("GET", "/jobs$", 403, {"message": "403 Forbidden"}, times=2)
    await here.chat.logged("403")
    here.end(Outcome.MR_CREATED)
    assert "a merge request is open" in (await here.nth(2)).text


def test_a_run_is_watched_for_a_limited_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with scene(tmp_path, longest_watch_s=0.2) as here:
            await here.ask(coder())
            assert "stopped waiting" in (await here.nth(2)).text

    run(story)


@in_scene
async def test_requests_to_a_busy_discord_are_retried(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord, "FIRST_PAUSE_S", 0.01)
    here.chat.discord.statuses = [429, 503]
    await here.ask(coder())
    assert "is started" in (await here.nth(1)).text


@in_scene
async def test_the_number_of_runs_is_limited(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_RUNS", 2)
    await here.ask(coder())
    await here.ask(coder())
    refused = await here.chat.ask(coder())
    assert "2 tasks are running" in refused["data"]["content"]
    await here.nth(2)
    settle(here.project, "nightshift", "failed")
    await here.nth(3)
    await here.ask(coder())


def test_the_service_can_stop_while_runs_continue(tmp_path: Path) -> None:
    lines: list[str] = []

    async def story() -> None:
        async with scene(tmp_path) as here:
            await here.ask(coder())
            await here.nth(1)
            lines.append("")
            here.chat.log.clear()
            log = here.chat.log
        lines.extend(log)

    run(story)
    assert "1 run(s) continue in GitLab; their results will not be posted" in lines


# --- approvals ------------------------------------------------------------------------------------


async def reach_gate(here: Scene) -> Sent:
    """End a run at a gate, and return the message with the buttons."""
    await here.start()
    here.end(Outcome.APPROVAL_REQUIRED, "failed")
    settle(here.project, "nightshift:approve", "manual")
    return await here.nth(2)


def approve_job_status(here: Scene) -> str:
    return next(j.status for j in here.project.jobs if j.name == "nightshift:approve")


@in_scene
async def test_approve_starts_the_job_and_its_result_is_posted(here: Scene) -> None:
    asked = await reach_gate(here)
    assert "A gate asks for an approval" in asked.text
    approve, _ = asked.custom_ids
    assert await here.chat.ask(press(approve, asked.text)) == {"type": 6}
    edited = await here.nth(3)
    assert (edited.method, edited.path) == ("PATCH", ANSWER)
    assert edited.text == f"Approved by <@{ADA}>, is being published.\n{asked.text}"
    assert edited.body["components"] == [] and approve_job_status(here) == "pending"
    again = await here.chat.ask(press(approve))
    assert "already been decided" in again["data"]["content"]

    author = here.gitlab.users[0]
    url = f"{here.project.web_url}/-/merge_requests/1"
    request = StandinMergeRequest(70001, 1, url, author, "night-shift/x", "main", "x")
    here.project.merge_requests.append(request)
    here.end(Outcome.MR_CREATED, job="nightshift:approve")
    done = await here.nth(4)
    assert "a merge request is open" in done.text and done.custom_ids == []
    assert done.body["message_reference"]["message_id"] == MESSAGE
    while not request.notes:
        await asyncio.sleep(0.01)
    assert request.notes[0].body == f"Approved in Discord by ada (user {ADA})."


@in_scene
async def test_an_approved_job_that_fails_has_no_result(here: Scene) -> None:
    """The result of the job before it does not count again."""
    approve, _ = (await reach_gate(here)).custom_ids
    await here.chat.ask(press(approve))
    await here.nth(3)
    settle(here.project, "nightshift:approve", "failed")
    assert "ended without a result" in (await here.nth(4)).text


@in_scene
async def test_refuse_publishes_nothing(here: Scene) -> None:
    asked = await reach_gate(here)
    approve, refuse = asked.custom_ids
    answer = await here.chat.ask(press(refuse, asked.text))
    assert answer["type"] == 7 and answer["data"]["components"] == []
    assert answer["data"]["content"].startswith(f"Refused by <@{ADA}>: nothing is publ")
    again = await here.chat.ask(press(approve))
    assert "already been decided" in again["data"]["content"]
    assert approve_job_status(here) == "manual"


@in_scene
async def test_only_allowed_users_decide(here: Scene) -> None:
    approve, refuse = (await reach_gate(here)).custom_ids
    eve = {"user": {"id": EVE, "username": "eve"}, "roles": []}
    other = approve.replace(":6000", ":6999")
    for click in (
        press(approve, member=eve),
        press(refuse, member=eve),
        press(approve, guild_id="9" * 18),
        press(other),
        press(refuse.replace("refuse", "approve")),
    ):
        answer = await here.chat.ask(click)
        assert "may not decide" in answer["data"]["content"]
    assert approve_job_status(here) == "manual"


@in_scene
async def test_a_failed_approval_can_be_repeated(here: Scene) -> None:
    approve, _ = (await reach_gate(here)).custom_ids
    here.gitlab.fail_next("POST", "/play$", 403, {"message": "403 Forbidden"})
    await here.chat.ask(press(approve))
    message = await here.nth(3)
    assert message.path == POSTED and "Not approved: " in message.text and "403" in message.text
    await here.chat.ask(press(approve))
    assert "Approved by" in (await here.nth(4)).text


@in_scene
async def test_an_approval_in_gitlab_comes_first(here: Scene) -> None:
    approve, _ = (await reach_gate(here)).custom_ids
    settle(here.project, "nightshift:approve", "success")
    await here.chat.ask(press(approve))
    assert "no job nightshift:approve waits" in (await here.nth(3)).text


@in_scene
async def test_a_button_works_after_a_restart(here: Scene) -> None:
    approve, _ = (await reach_gate(here)).custom_ids
    async with chat(chat_settings(here.gitlab.url)) as second:
        assert await second.ask(press(approve)) == {"type": 6}
        assert "Approved by" in (await second.discord.nth(1)).text


@in_scene
async def test_without_an_approval_job_there_are_no_buttons(here: Scene) -> None:
    here.project.pipeline_jobs = {"nightshift": "running"}
    await here.start()
    here.end(Outcome.APPROVAL_REQUIRED, "failed")
    asked = await here.nth(2)
    assert "A gate asks" in asked.text and asked.custom_ids == []
