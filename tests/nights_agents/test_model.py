"""Whole nights with the agent ``model``: a model behind Chat Completions, in a loop with tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.tools import open_folder
from tests.support.model_endpoint import ModelEndpoint
from tests.support.sandboxes import TIERS, tier_or_skip
from tests.support.shop import BEADS, DRAFT, FOUND, NOTE, PASSED
from tests.support.trees import kill_all, places_of
from tests.support.turns import Call, Turn, call, error, say
from tests.support.world import FILES, PLAIN, PROVING, SECRETS, World, ended, git, wait_in, world

KEY = "sk-test-OpenAiKeyOfTheNight04"
MODEL = "local-coder"
AGENT = f"agent: model\nmodels: {{implement: {MODEL}}}\nmax_tokens: 1000000\n"
CONFIG = PLAIN + AGENT
PRICES = f"prices: {{{MODEL}: {{input: 2, output: 10}}}}\n"
LAST = "        self.assertEqual(total([1, 2]), 3)\n"


def run(*words: str) -> Call:
    return Call("run", {"command": list(words)})


def finish(report: object) -> Turn:
    return call("finish", **report)  # type: ignore[arg-type]


def turns(**other: list[Turn]) -> dict[str, list[Turn]]:
    """A night in which all goes well, except for ``other``."""
    return {
        "analyze": [
            Turn(calls=(run("git", "ls-files"), Call("read", {"path": "shop.py"}))),
            call("search", pattern="def total"),
            finish(FOUND),
        ],
        "implement": [
            call("read", path="test_shop.py"),
            call("edit", path="test_shop.py", old=LAST, new=LAST + NOTE),
            Turn(calls=(run("make", "test"),)),
            call("finish", summary="I added a note."),
        ],
        "verify": [Turn(calls=(run("make", "test"),)), finish(PASSED)],
        "mr": [finish(DRAFT)],
        **other,
    }


def night(shop: World, url: str, *args: str, **env: str) -> Any:
    own = {"OPENAI_API_KEY": KEY, "NIGHTSHIFT_MODEL_ENDPOINT": f"{url}/v1"}
    return shop.nightshift("run", *args, **{"ANTHROPIC_API_KEY": "", **own, **env})


def beads(shop: World) -> list[tuple[str, str]]:
    return [(bead["bead"], bead["status"]) for bead in shop.result["beads"]]


def test_a_night_in_the_strongest_sandbox_opens_one_merge_request(tmp_path: Path) -> None:
    with (
        world(tmp_path, config=f"{PROVING}{AGENT}{PRICES}") as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint.url, NIGHTSHIFT_ISOLATION="auto")

        assert (done.exit_status, done.stderr) == (0, ""), done.stdout
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        bare = shop.project.bare_repository
        assert git(bare, "diff", "--numstat", shop.sha, str(mr.sha)) == "2\t0\ttest_shop.py\n"
        # ten answers of the model, 1000 tokens in and 100 out each, at $2 and $10 a million
        assert shop.result["total_tokens"] == 11_000
        assert shop.result["total_cost_usd"] == pytest.approx(10 * 0.003)
        assert_tools_are_told(shop)
        asked = endpoint.messages
        assert {r.headers["authorization"] for r in asked} == {f"Bearer {KEY}"}
        shop.assert_restored()
        sent = {f"request {n}": json.dumps(r.body) for n, r in enumerate(asked)}
        log = {"stdout": done.stdout, "stderr": done.stderr}
        assert places_of((*SECRETS, KEY), {**sent, **log, **shop.products()}) == []


def assert_tools_are_told(shop: World) -> None:
    """As the gateway has seen them, with the results that the loop reports."""
    analyze, implement, verify, _ = shop.result["beads"]
    seen = [(c["tool"], c["subject"], c["reported"]) for c in analyze["tools"]["calls"]]
    assert seen == [
        ("run", "git ls-files", "exit status 0"),
        ("read", "shop.py", "ok"),
        ("search", "def total", "ok"),
        ("finish", "", ""),
    ]
    assert {bead["tools"]["source"] for bead in (analyze, implement, verify)} == {"gateway"}
    assert ("run", "make test", "exit status 0") in [
        (c["tool"], c["subject"], c["reported"]) for c in verify["tools"]["calls"]
    ]


FENCED = """I will look.

```tool
{{"tool": "{0}", "arguments": {1}}}
```
"""
BLOCKS = f"""\
I add a note.

test_shop.py
<<<<<<< SEARCH
{LAST.rstrip(chr(10))}
=======
{LAST}{NOTE.rstrip(chr(10))}
>>>>>>> REPLACE
"""


def write(name: str, **given: object) -> Turn:
    """A call as text, for a server without tool calls."""
    return say(FENCED.format(name, json.dumps(given)))


def test_an_endpoint_without_tool_calls_gets_fenced_blocks(tmp_path: Path) -> None:
    """It is asked with tools once; the gateway remembers that for the night."""
    script = {
        "analyze": [write("read", path="shop.py"), write("finish", **FOUND)],
        "implement": [say(BLOCKS), write("run", command=["make", "test"]), say("I added a note.")],
        "verify": [say(json.dumps(PASSED))],
        "mr": [write("finish", **DRAFT)],
    }
    given = {bead: iter(rows) for bead, rows in script.items()}

    def answer(request: Any) -> Turn:
        if "tools" in request.body:
            return error(400, "invalid_request_error", f"{MODEL} does not support tools")
        return next(given[BEADS(request)])

    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(answer) as endpoint,
    ):
        done = night(shop, endpoint.url)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert len(shop.merge_requests) == 1
        assert len([r for r in endpoint.messages if "tools" in r.body]) == 1
        implement = shop.result["beads"][1]["tools"]
        assert [(c["tool"], c["subject"]) for c in implement["calls"]] == [("run", "make test")]
        shop.assert_restored()


# --- files of secrets -------------------------------------------------------------------------

SECRET = "PASSWORD=only-for-the-job\n"
LOOKS = (
    ["cat", ".env"],
    ["cat", "deploy/prod.env"],
    ["grep", "-r", "only-for", "deploy", "build", ".env"],
    ["git", "grep", "only-for"],
    ["git", "diff", "HEAD"],
)
LEFT = "import importlib\n" + (
    "importlib.import_module('gitlab_nightshift.stages.work.work_stage')"
    ".find_hidden_files = lambda saved: ()\n"
)
"""Run before the command: the defence is away."""


def look_at_secrets(folder: Path, isolation: str, patch: str = "") -> str:
    """What a model sees that looks for files of secrets: one that is tracked, others that are
    ignored or new."""
    looks = Turn(calls=tuple(run(*words) for words in LOOKS))
    searched = Turn(calls=(Call("search", {"pattern": "only-for"}), Call("read", {"path": ".env"})))
    config, script = CONFIG, turns(verify=[looks, searched, finish(PASSED)])
    with world(folder, config=config, files={**FILES, "deploy/prod.env": SECRET}) as shop:
        shop.patch = patch
        (shop.checkout / ".env").write_text(SECRET)
        (shop.checkout / "build").mkdir()
        (shop.checkout / "build" / "id_rsa").write_text(SECRET)
        shop.look()
        with ModelEndpoint(script, bead_of=BEADS) as endpoint:
            done = night(
                shop,
                endpoint.url,
                NIGHTSHIFT_ISOLATION=isolation,
            )
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert len(shop.merge_requests) == 1
        shop.assert_restored()
        named = "  taken away while the agent works: .env, build/id_rsa, deploy/prod.env\n"
        assert (named in done.log) is not bool(patch)
        return "\n".join(text for r in endpoint.messages for text in r.tool_results)


@pytest.mark.parametrize("isolation", TIERS)
def test_files_of_secrets_are_not_there_while_it_works(isolation: str) -> None:
    with open_folder() as folder:
        seen = look_at_secrets(folder, tier_or_skip(isolation))
    assert "only-for-the-job" not in seen
    assert "cat: .env: No such file or directory" in seen


def test_without_that_it_could_read_them(tmp_path: Path) -> None:
    seen = look_at_secrets(tmp_path, "auto", LEFT)
    assert seen.count("only-for-the-job") > len(LOOKS)


def test_after_a_kill_the_next_start_puts_them_back(tmp_path: Path) -> None:
    files = {**FILES, "deploy/prod.env": SECRET}
    with (
        world(tmp_path, config=CONFIG, files=files) as shop,
        ModelEndpoint([Turn(hang=True)] * 9) as endpoint,
    ):
        for name in (".env", "deploy/local.env"):
            (shop.checkout / name).write_text(SECRET)
        shop.look()
        own = {"OPENAI_API_KEY": KEY, "NIGHTSHIFT_MODEL_ENDPOINT": endpoint.url}
        process = shop.start("run", ANTHROPIC_API_KEY="", **own)
        wait_in(process, lambda: endpoint.messages, "the model at work")
        assert not (shop.checkout / ".env").exists()
        kill_all(process.pid)
        ended(process)
        assert shop.nightshift("plan").exit_status == 0
        shop.assert_restored()
        assert (shop.checkout / ".env").read_text() == SECRET
        assert (shop.checkout / "deploy/prod.env").read_text() == SECRET
