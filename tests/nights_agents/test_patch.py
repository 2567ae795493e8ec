"""Whole nights with the agent ``patch``: a plain model behind Chat Completions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, DRAFT, FOUND, PASSED, completed
from tests.support.trees import places_of
from tests.support.turns import Turn, error, say
from tests.support.world import PLAIN, PROVING, SECRETS, Files, World, git, world

KEY = "sk-test-OpenAiKeyOfTheNight04"
MODEL = "local-coder"
AGENT = f"agent: patch\nmodels: {{implement: {MODEL}}}\nmax_tokens: 1000000\n"
CONFIG = PLAIN + AGENT
PRICES = f"prices: {{{MODEL}: {{input: 2, output: 10}}}}\n"
LAST = "        self.assertEqual(total([1, 2]), 3)"
NOTE = "\n    # A discount is in percent."
BLOCKS = f"""\
I add a note.

test_shop.py
```python
<<<<<<< SEARCH
{LAST}
=======
{LAST}
{NOTE}
>>>>>>> REPLACE
```
"""

FILES: Files = {
    "Makefile": "test:\n\tpython3 -m unittest -q\n",
    "shop.py": (
        "def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
    ),
    "test_shop.py": (
        "import unittest\n\nfrom shop import total\n\n\n"
        f"class TotalTest(unittest.TestCase):\n    def test_plain(self):\n{LAST}\n"
    ),
    ".env": "PASSWORD=never-shown\n",
    "logo.png": b"\x89PNG\0",
}


def turns(**other: list[Turn]) -> dict[str, list[Turn]]:
    """A night in which all goes well, except for ``other``."""
    return {
        "analyze": [say(json.dumps(FOUND))],
        "implement": [say(BLOCKS)],
        "verify": [
            say(f"It is right.\n```json\n{json.dumps({**PASSED, 'commands_run': []})}\n```")
        ],
        "mr": [say(json.dumps(DRAFT))],
        **other,
    }


def night(shop: World, url: str, *args: str, **env: str) -> Any:
    own = {"OPENAI_API_KEY": KEY, "NIGHTSHIFT_MODEL_ENDPOINT": f"{url}/v1"}
    return shop.nightshift("run", *args, **{"ANTHROPIC_API_KEY": "", **own, **env})


def beads(shop: World) -> list[tuple[str, str]]:
    return [(bead["bead"], bead["status"]) for bead in shop.result["beads"]]


def test_a_night_with_a_plain_model_opens_one_merge_request(tmp_path: Path) -> None:
    """In the strongest sandbox of this machine; each bead is shown what it needs."""
    config = f"{PROVING}{AGENT}{PRICES}"
    with (
        world(tmp_path, config=config, files=FILES) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint.url, NIGHTSHIFT_ISOLATION="auto")

        assert (done.exit_status, done.stderr) == (0, ""), done.stdout
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        bare = shop.project.bare_repository
        changed = git(bare, "diff", "--numstat", shop.sha, str(mr.sha))
        assert changed == "2\t0\ttest_shop.py\n"
        assert git(bare, "show", f"{mr.sha}:test_shop.py").endswith(f"{LAST}\n{NOTE}\n")
        assert [bead for bead, _ in beads(shop)] == ["analyze", "implement", "verify", "mr"]
        # four answers of the model, 1000 tokens in and 100 out each, at $2 and $10 a million
        assert shop.result["total_tokens"] == 4400
        assert shop.result["total_cost_usd"] == pytest.approx(4 * 0.003)
        asked = endpoint.messages
        assert {r.headers["authorization"] for r in asked} == {f"Bearer {KEY}"}
        assert {r.model for r in asked} == {MODEL}
        shop.assert_restored()
        sent = {f"request {n}": json.dumps(r.body) for n, r in enumerate(asked)}
        log = {"stdout": done.stdout, "stderr": done.stderr}
        assert places_of((*SECRETS, KEY), {**sent, **log, **shop.products()}) == []
        assert_shown(endpoint)


def shown(endpoint: ModelEndpoint, bead: str) -> dict[str, str]:
    """What a bead was shown, by name."""
    [request] = [r for r in endpoint.messages if BEADS(r) == bead][:1]
    below = request.prompt.partition("# What you are shown\n\n")[2]
    parts = re.split(r"^----- [0-9a-f]{16} (.*) -----\n", below, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def assert_shown(endpoint: ModelEndpoint) -> None:
    """What concerns a bead, and nothing that it may not see."""
    analyze = shown(endpoint, "analyze")
    assert analyze["file shop.py"] == FILES["shop.py"]
    assert not {"file .env", "file logo.png"} & analyze.keys()
    implement = shown(endpoint, "implement")
    files = [name for name in implement if name.startswith("file ")]
    assert files == ["file test_shop.py"], "what was selected, and nothing else"
    assert json.loads(implement["the analysis"])["selected"] == completed(FOUND)["selected"]
    verify = shown(endpoint, "verify")
    assert f"+{NOTE.strip(chr(10))}" in verify["the change, as git diff shows it"]
    assert NOTE.strip() in verify["file test_shop.py"]
    assert "Write note 11" in shown(endpoint, "mr")["the last commit messages"]
    everything = json.dumps([r.body for r in endpoint.messages])
    assert "never-shown" not in everything


def test_an_endpoint_of_ones_own_that_knows_no_form_of_answers(tmp_path: Path) -> None:
    """It needs no key. Its model has a small context: it is shown less, and may answer less,
    however large the budget is."""
    longest = 30_000

    def model(request: Any) -> Turn:
        if "response_format" in request.body:  # by its name alone, however it is worded
            return error(400, "invalid_request_error", "unknown field response_format")
        if len(request.prompt) > longest or request.body["max_completion_tokens"] > 4_000:
            return error(400, "invalid_request_error", "exceeds the context length of 8192 tokens")
        return turns()[BEADS(request)][0]

    big = {f"big{n}.py": f"value_{n} = 1\n" * 400 for n in range(12)}
    with (
        world(tmp_path, config=CONFIG, files={**FILES, **big}) as shop,
        ModelEndpoint(model) as endpoint,
    ):
        done = night(shop, endpoint.url, OPENAI_API_KEY="")
        assert (done.exit_status, done.stderr) == (0, "")
        assert len(shop.merge_requests) == 1
        less = r"  analyze: too much for this model: shortened to \d+ tokens\n"
        assert re.search(less, done.log)
        assert [bead for bead, _ in beads(shop)] == ["analyze", "implement", "verify", "mr"]
        with_form = [r for r in endpoint.messages if "response_format" in r.body]
        assert len(with_form) == 1, "remembered for the night"
        [given] = {r.headers["authorization"] for r in endpoint.messages}
        assert re.fullmatch(r"Bearer no-key-[0-9a-f]{32}", given)
        assert shop.result["total_cost_usd"] is None, "unknown, never 0"
        assert shop.result["total_tokens"] == 4400


def test_answers_that_do_not_fit(tmp_path: Path) -> None:
    """A block is asked for once more, then the attempt has failed; a verdict that is no JSON is
    never a pass."""
    outside = BLOCKS.replace("test_shop.py\n", "../shop.tmp/x.py\n")
    wrong = BLOCKS.replace("total([1, 2])", "total([1,2])")
    verdict = turns()["verify"][0].text
    answers = {
        "analyze": iter([json.dumps(FOUND)]),
        "implement": iter([outside, outside, wrong, BLOCKS, BLOCKS]),
        "verify": iter(["passed: true", "passed: true", verdict]),
        "mr": iter([json.dumps(DRAFT)]),
    }
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(lambda request: say(next(answers[BEADS(request)]))) as endpoint,
    ):
        done = night(shop, endpoint.url, NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="2")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert beads(shop) == [
            ("analyze", "ok"),
            ("implement", "bad_output"),
            ("implement", "ok"),
            ("verify", "bad_output"),
            ("implement", "ok"),
            ("verify", "ok"),
            ("mr", "ok"),
        ]
        _, _, second, again, _ = [r for r in endpoint.messages if BEADS(r) == "implement"]
        assert "it cannot contain an empty part, . or .." in second.prompt, (
            "the next attempt is told why"
        )
        assert [m["role"] for m in again.messages] == ["system", "user", "assistant", "user"]
        told = again.messages[-1]["content"]
        assert "block 1 (test_shop.py): SEARCH does not occur in the file" in told
        assert len(shop.merge_requests) == 1
        shop.assert_restored()


def test_an_endpoint_that_cannot_be_used_ends_the_night(tmp_path: Path) -> None:
    """Nothing is spent where a model, an endpoint or the money is missing."""
    url, model = "NIGHTSHIFT_MODEL_ENDPOINT", "NIGHTSHIFT_MODELS__IMPLEMENT"
    missing = [
        ({}, 2, "models.implement: name the model of your endpoint"),
        ({model: MODEL, "OPENAI_API_KEY": "", url: ""}, 5, "no model: set"),
    ]
    answers = [error(401), error(404, "not_found_error", "no such model")]
    with (
        world(tmp_path, config=f"{PLAIN}agent: patch\n{PRICES}") as shop,
        ModelEndpoint(lambda _: answers[0]) as endpoint,
    ):
        for env, status, text in missing:
            shop.assert_nothing_spent(night(shop, endpoint.url, **env), status, text)
        shop.env[model] = MODEL
        done = night(shop, endpoint.url, NIGHTSHIFT_MAX_BUDGET_USD="0.001")
        assert (done.exit_status, shop.result["outcome"]) == (0, "NO_IMPROVEMENT")
        assert "budget" in shop.result["reason"]
        assert endpoint.requests == []

        for text in ("the model endpoint refused the key (HTTP 401)", "no such model"):
            assert night(shop, endpoint.url).exit_status == 5
            assert text in shop.result["reason"]
            assert shop.result["error_code"] == "E_PROVIDER_UNAVAILABLE"
            del answers[0]
