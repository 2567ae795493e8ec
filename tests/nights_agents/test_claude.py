"""Whole nights with the real claude CLI against a scripted model endpoint."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.stages.work.handoff import build_schema
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, DRAFT, FOUND, NOTE, REALLY, completed, turns
from tests.support.trees import places_of
from tests.support.turns import Request
from tests.support.world import (
    BOT_TOKEN,
    FILES,
    GATEWAY,
    MODEL_KEY,
    PLACEHOLDER,
    PROVING,
    SECRETS,
    World,
    git,
    world,
)

NAMING = {"AGENTS.md": "See @own.txt for more.\n", "own.txt": "WORDS OF THE FILE\n"}
BODY = """\
## Summary

A discount was never tested.

**`make test` passed · 2 lines, 1 file · measured independently: `make test`: 1 test before, 1 \
with the change**

## Reasoning

Wrong totals cost money.

<details>
<summary>Candidates considered</summary>

1. Test the discount of total(). (`test_shop.py`) **(chosen)**
2. Name the percentage. (`shop.py`)

Why not the others:

- Name the percentage: of little use.

</details>

## Changes

One test more.

- `test_shop.py`

## Verification

<details>
<summary>How it was run</summary>

The files of this change were checked when it was published.

This program ran, on commit `{base}` with only this change applied, in a process that had \
read nothing of an agent:

- `make test`: exit 0, {seconds} s

Measured independently of the agents:

- The untouched checkout: the same commands passed before the change

The Verify bead, a second agent, approved the change. Its model asked for these \
commands: `make test` (ok, as its CLI reports).

Agents and commands ran without a sandbox (`isolation: none`).

</details>

---

Opened by the night shift in [this pipeline]({url}/acme/shop/-/pipelines/4711). \
Not useful? Close it with a short reason, and it is not proposed again.

<!-- nightshift: {{"run_id": "4711", "category": "tests", "idea": "{idea}", \
"symbols": ["TotalTest"], "digest": "{digest}"}} -->
"""


def test_a_night_opens_one_merge_request(tmp_path: Path) -> None:
    """The happy path, from the environment of a job to the merge request, all of it."""
    with (
        world(tmp_path, REALLY, files={**FILES, **NAMING}, config=PROVING) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        _opened(shop)
        _products(shop)
        _called(shop, endpoint)
        _a_line_that_names_a_file_does_not_bring_it_into_the_prompt(endpoint)
        shop.assert_restored()
        [mr] = shop.merge_requests
        assert done.last_line.startswith(f"✔ MR_CREATED · {mr.web_url} · tests, ")
        log = {"stdout": done.stdout, "stderr": done.stderr}
        assert places_of(SECRETS, {**log, **shop.products()}) == []


def _opened(shop: World) -> None:
    [mr] = shop.merge_requests
    body = mr.description or ""
    seconds = body.partition("exit 0, ")[2].partition(" s")[0]
    idea = body.partition('"idea": "')[2].partition('"')[0]
    digest = body.partition('"digest": "')[2].partition('"')[0]
    assert len(idea) == len(digest) == 16
    known = {"seconds": seconds, "idea": idea, "digest": digest}
    assert body == BODY.format(base=shop.sha[:12], url=shop.gitlab.url, **known)
    assert mr.title == "[night-shift/tests] Test the discount of total()"
    assert (mr.source_branch, mr.target_branch) == ("night-shift/test-discount", "main")
    assert mr.remove_source_branch is True
    assert mr.labels == ["night-shift", "tests"]
    assert [user.username for user in mr.reviewers] == ["rita"]
    assert [user.username for user in mr.assignees] == ["rita"]
    assert [(x.name, x.color, x.description) for x in shop.project.labels] == [
        ("night-shift", "#6666c4", "Opened by the night shift: small, proven improvements"),
        ("tests", "#428fdc", "Night-shift category: tests"),
    ]
    [push] = shop.project.pushes
    assert push.ref == "refs/heads/night-shift/test-discount"
    assert push.options == ()
    project = f"/api/v4/projects/{shop.project.id}"
    assert shop.written == [
        ("POST", "/acme/shop.git/git-receive-pack"),
        ("POST", f"{project}/labels"),
        ("POST", f"{project}/labels"),
        ("POST", f"{project}/merge_requests"),
    ]
    _committed(shop, push.new)
    pushing = {(c.username, c.secret) for c in shop.gitlab.credentials_seen if c.kind == "basic"}
    assert pushing - {("gitlab-ci-token", shop.env["CI_JOB_TOKEN"])} == {("oauth2", BOT_TOKEN)}


def _committed(shop: World, sha: str) -> None:
    bare = shop.project.bare_repository
    shown = git(bare, "show", "-s", "--format=%P|%an <%ae>|%cn <%ce>|%B", sha)
    olga = "Olga Owner <olga@example.org>"
    message = "Test the discount of total()\n\nIt had no test."
    assert shown.strip() == f"{shop.sha}|{olga}|{olga}|{message}"
    assert git(bare, "diff", "--name-status", shop.sha, sha) == "M\ttest_shop.py\n"
    assert git(bare, "show", f"{sha}:test_shop.py").endswith(f"3)\n{NOTE}")
    assert shop.commit("main") == shop.sha


def _products(shop: World) -> None:
    logs = [f"logs/{n:02}-{bead}-tests-1" for n, bead in enumerate(REALLY, 1)]
    logs += ["logs/baseline-1", "logs/checks-tests-1-1", "logs/notary-1"]
    products = {name for name in shop.products() if not name.startswith("logs/evidence-")}
    assert products == {
        ".gitignore",
        "bundle/bundle.json",
        "bundle/change.patch",
        "events.jsonl",
        "annotations.json",
        "junit.xml",
        "logs/index.txt",
        "nightshift.env",
        "notary.json",
        "plan.json",
        "published.json",
        "report.html",
        "result.json",
        *(f"{log}.{kind}" for log in logs for kind in ("out", "err")),
    }
    [mr] = shop.merge_requests
    result = shop.result
    beads = result.pop("beads")
    cost, tokens = result.pop("total_cost_usd"), result.pop("total_tokens")
    assert result.pop("total_duration_s") > 0
    assert (result.pop("assumed_cost_usd"), result.pop("assumed_tokens")) == (0, 0)
    assert (result.pop("project"), result.pop("scheduled")) == ("acme/shop", "tests")
    assert result.pop("pipeline_url").endswith("/acme/shop/-/pipelines/4711")
    assert result.pop("title") == "[night-shift/tests] Test the discount of total()"
    assert result.pop("change") == {"files": ["test_shop.py"], "added": 2, "deleted": 0}
    for name in ("commands", "reported"):
        assert [each["level"] for each in result.pop(name)] == ["pass"]
    [attempt] = result.pop("attempts")
    assert attempt["passed"]
    assert result.pop("said")["summary"] == DRAFT["summary"]
    assert datetime.fromisoformat(result.pop("started_at")).tzinfo
    for name in ("evidence", "flags", "gates", "notes"):
        assert isinstance(result.pop(name), list)
    assert result == {
        "version": 2,
        "upkeep": None,
        "run_id": "4711",
        "outcome": "MR_CREATED",
        "error_code": "",
        "reason": "",
        "summary": "files scanned: unknown, read by a shell\ntests: Test the discount of total()",
        "task": "",
        "mr_url": mr.web_url,
        "branch": "night-shift/test-discount",
        "base_sha": shop.sha,
        "commit_sha": mr.sha,
        "category_used": "tests",
        "is_fallback": False,
        "files_scanned": 0,
        "files_scanned_at_least": True,
        "isolation": "none",
    }
    assert [(b["bead"], b["category"], b["attempt"], b["status"]) for b in beads] == [
        (bead, "tests", 1, "ok") for bead in REALLY
    ]
    # nine answers of the model, 1000 tokens in and 100 out each
    assert (tokens, [b["usage"]["tokens"] for b in beads]) == (9900, [2200, 4400, 2200, 1100])
    opus, sonnet = ((1000 * i + 100 * o) / 1_000_000 for i, o in ((5, 25), (3, 15)))
    assert [b["usage"]["cost_usd"] for b in beads] == pytest.approx(
        [2 * opus, 4 * opus, 2 * sonnet, sonnet]
    )
    assert cost == sum(b["usage"]["cost_usd"] for b in beads)
    assert all(b["duration_s"] > 0 for b in beads)
    assert [b["logs"] for b in beads] == [[f"{log}.out", f"{log}.err"] for log in logs[:4]]
    _machine_products(shop, cost)


def _machine_products(shop: World, cost: float) -> None:
    [mr] = shop.merge_requests
    texts = {name: raw.decode() for name, raw in shop.products().items()}
    assert texts["nightshift.env"] == (
        f"NIGHT_OUTCOME=MR_CREATED\nNIGHT_MR_URL={mr.web_url}\n"
        f"NIGHT_CATEGORY=tests\nNIGHT_COST_USD={cost:.4f}\n"
    )
    assert texts["junit.xml"].count("<testcase ") == 9
    assert 'failures="0"' in texts["junit.xml"]
    assert mr.web_url in texts["report.html"]
    assert "The change: 2 lines, 1 file" in texts["report.html"]
    lines = [json.loads(line) for line in texts["events.jsonl"].splitlines()]
    programs = [line["command"] for line in lines if line["event"] == "cmd_start"]
    assert programs == [line["command"] for line in lines if line["event"] == "cmd_end"]
    agents = [program for program in programs if program.startswith("agent: ")]
    assert agents == [f"agent: {bead}" for bead in ("analyze", "implement", "verify", "mr")]
    events = [line["event"] for line in lines]
    assert (events[0], events[-1]) == ("run_started", "run_ended")
    assert events.count("bead_ended") == 4
    assert events.count("command_ended") == 3
    assert events.count("progress") >= 4
    assert shop.product("plan.json")["categories"][:2] == ["tests", "refactoring"]
    published = shop.product("published.json")
    assert (published["mr_iid"], published["commit_sha"]) == (1, mr.sha)
    bundle = shop.bundle
    assert (bundle["outcome"], bundle["base_sha"]) == ("MR_READY", shop.sha)
    assert bundle["proposal"]["draft"] == DRAFT
    assert bundle["proposal"]["analysis"] == completed(FOUND)
    tree = git(shop.project.bare_repository, "rev-parse", f"{mr.sha}^{{tree}}").strip()
    assert bundle["proposal"]["change"]["tree_id"] == tree


def _called(shop: World, endpoint: ModelEndpoint) -> None:
    """The exact command line and environment of every bead, and what the model got."""
    seen = shop.agent.seen
    assert [bead.name for bead in seen] == [f"{bead}-tests-1" for bead in REALLY]
    spent, keys, briefs = 0.0, set[str](), set[str]()
    for bead, ended in zip(seen, shop.result["beads"], strict=True):
        folder = Path(bead.env["HOME"]).parent
        handoff = f"/{folder}/handoff"
        own = build_schema(bead.bead)
        tools = "Bash,Read,Edit,Write" if bead.bead == "implement" else "Bash,Read,Write"
        opus = bead.bead in ("analyze", "implement")
        assert bead.argv == [
            str(shop.agent.bin / "claude"),
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
            *("--verbose", "--include-partial-messages"),
            *("--model", "claude-opus-4-6" if opus else "claude-sonnet-4-6"),
            *("--tools", "Bash,Read" if bead.bead == "mr" else tools),
            *("--permission-mode", "dontAsk", "--allowedTools", f"Read({handoff}/**)"),
            *([f"Edit({handoff}/handoff.json)"] if own else []),
            *(["Edit(./**)"] if bead.bead == "implement" else []),
            *("Bash(git *)", "Bash(make test)"),
            *("--setting-sources", "user", "--strict-mcp-config"),
            *("--max-budget-usd", f"{10 - spent:.4f}", "--no-session-persistence"),
            *(["--json-schema", json.dumps(own)] if own else []),
        ]
        own_way = {name: bead.env.pop(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")}
        assert bead.env == _environment(shop, folder)
        keys.add(own_way["ANTHROPIC_API_KEY"])
        assert PLACEHOLDER.fullmatch(own_way["ANTHROPIC_API_KEY"])
        assert GATEWAY.fullmatch(own_way["ANTHROPIC_BASE_URL"])
        assert own_way["ANTHROPIC_BASE_URL"] != endpoint.url
        assert bead.cwd == str(shop.checkout)
        brief = bead.prompt.removeprefix(INJECTION_MITIGATION_PREAMBLE).partition("\n---\n\n")[0]
        assert brief.startswith("\n<repository_brief>\n")
        assert "- make test: passed on the untouched checkout in " in brief
        assert bead.prompt.startswith(f"{INJECTION_MITIGATION_PREAMBLE}{brief}\n---\n\n# Task: ")
        briefs.add(brief)
        spent += ended["usage"]["cost_usd"]
    assert len(keys) == len(seen), "each bead has a placeholder of its own"
    assert len(briefs) == 1, "all beads share one beginning"
    assert [r.tools for r in endpoint.messages if not r.tool_results] == [
        ["Bash", "Read", "StructuredOutput", "Write"],
        ["Bash", "Edit", "Read", "Write"],
        ["Bash", "Read", "StructuredOutput", "Write"],
        ["Bash", "Read", "StructuredOutput"],
    ]
    # The CLI tells each model its own name before the prompt; no cache is shared by two models.
    beginnings = {(request.model, *_list_shared_texts(request)) for request in endpoint.messages}
    assert len(beginnings) == len({request.model for request in endpoint.messages})
    for request in endpoint.messages:
        blocks = request.messages[0]["content"]
        [shared] = [block for block in blocks if block["text"].endswith("</repository_brief>\n")]
        assert shared["cache_control"] == {"type": "ephemeral"}
        assert json.dumps(request.body).count('"cache_control"') <= 4, "the service takes no more"
    assert {r.headers["x-api-key"] for r in endpoint.messages} == {MODEL_KEY}
    sent = {f"request {n}": json.dumps(r.body) for n, r in enumerate(endpoint.requests)}
    assert places_of(SECRETS, {**shop.agent.texts, **sent}) == []


def _list_shared_texts(request: Request) -> list[str]:
    """What stands before a bead's own part: no cache would serve it if it differed."""
    texts = [block["text"] for block in request.messages[0]["content"]]
    end = next(n for n, text in enumerate(texts) if text.endswith("</repository_brief>\n"))
    return texts[: end + 1]


def _a_line_that_names_a_file_does_not_bring_it_into_the_prompt(endpoint: ModelEndpoint) -> None:
    """The CLI reads in what a prompt names by "@", and AGENTS.md is quoted in the brief."""
    sent = [json.dumps(request.body) for request in endpoint.messages]
    assert len(sent) == 9
    assert all("  | See @own.txt for more." in body for body in sent)
    assert not [body for body in sent if "WORDS OF THE FILE" in body]


def _environment(shop: World, folder: Path) -> dict[str, str]:
    return {
        "PATH": str(folder.parent / "path"),
        "JAVA_TOOL_OPTIONS": f"-Duser.home={folder}/home -Djava.io.tmpdir={folder}/tmp",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "nightshift",
        "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "BASH_DEFAULT_TIMEOUT_MS": "540000",
        "BASH_MAX_TIMEOUT_MS": "540000",
    }
