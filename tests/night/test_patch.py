"""Whole nights with the agent ``patch``: a plain model behind Chat Completions."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, DRAFT, FOUND, PASSED
from tests.support.trees import places_of
from tests.support.turns import Turn, error, say
from tests.support.world import PROVING, SECRETS, Files, World, git, world

KEY = "sk-test-OpenAiKeyOfTheNight04"
MODEL = "local-coder"
CONFIG = f"{PROVING}agent: patch\nmodels: {{implement: {MODEL}}}\n"
PRICED = f"{CONFIG}prices: {{{MODEL}: {{input: 2, output: 10}}}}\n"
LAST = "        self.assertEqual(total([1, 2]), 3)"
TEST = "\n    def test_discount(self):\n        self.assertEqual(total([10], 50), 5)"
BLOCKS = f"""\
I add a test.

test_shop.py
```python
<<<<<<< SEARCH
{LAST}
=======
{LAST}
{TEST}
>>>>>>> REPLACE
```
"""


def turns(**other: list[Turn]) -> dict[str, list[Turn]]:
    """A night that goes well at once, but for ``other``."""
    return {
        "analyze": [say(json.dumps(FOUND))],
        "implement": [say(BLOCKS)],
        "verify": [
            say(f"It is right.\n```json\n{json.dumps({**PASSED, 'commands_run': []})}\n```")
        ],
        "mr": [say(json.dumps(DRAFT))],
        **other,
    }


def night(shop: World, endpoint: ModelEndpoint, *args: str, **env: str) -> Any:
    own = {"OPENAI_API_KEY": KEY, "NIGHTSHIFT_MODEL_ENDPOINT": f"{endpoint.url}/v1"}
    return shop.nightshift("run", *args, **{"ANTHROPIC_API_KEY": "", **own, **env})


def beads(shop: World) -> list[tuple[str, str]]:
    return [(bead["bead"], bead["status"]) for bead in shop.result["beads"]]


def test_a_night_with_a_plain_model_opens_one_merge_request(tmp_path: Path) -> None:
    with (
        world(tmp_path, config=PRICED) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint)

        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert mr.title == "[night-shift/tests] Test the discount of total()"
        bare = shop.project.bare_repository
        changed = git(bare, "diff", "--numstat", shop.sha, str(mr.sha))
        assert changed == "3\t0\ttest_shop.py\n"
        assert git(bare, "show", f"{mr.sha}:test_shop.py").endswith(f"{LAST}\n{TEST}\n")
        assert [bead for bead, _ in beads(shop)] == ["analyze", "implement", "verify", "mr"]
        # four answers of the model, 1000 tokens in and 100 out each, at $2 and $10 a million
        assert shop.result["total_tokens"] == 4400
        assert shop.result["total_cost_usd"] == pytest.approx(4 * 0.003)
        asked = endpoint.messages
        assert {r.headers["authorization"] for r in asked} == {f"Bearer {KEY}"}
        assert {r.model for r in asked} == {MODEL}
        shop.assert_put_back()
        sent = {f"request {n}": json.dumps(r.body) for n, r in enumerate(asked)}
        log = {"stdout": done.stdout, "stderr": done.stderr}
        assert places_of((*SECRETS, KEY), {**sent, **log, **shop.products()}) == []


def shown(endpoint: ModelEndpoint, bead: str) -> dict[str, str]:
    """What a bead was shown, by name."""
    [request] = [r for r in endpoint.messages if BEADS(r) == bead][:1]
    below = request.prompt.partition("# What you are shown\n\n")[2]
    parts = re.split(r"^----- [0-9a-f]{16} (.*) -----\n", below, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_each_bead_is_shown_what_it_needs(tmp_path: Path) -> None:
    files: Files = {
        "Makefile": "test:\n\tpython3 -m unittest -q\n",
        "shop.py": (
            "def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
        ),
        "test_shop.py": (
            "import unittest\n\nfrom shop import total\n\n\n"
            f"class TotalTest(unittest.TestCase):\n    def test_plain(self):\n{LAST}\n"
        ),
        ".env": "PASSWORD=never-shown\n",
        "deploy.py": f'TOKEN = "glpat-{"MyOwnTokenOfDeploy99"}"\n',
        "logo.png": b"\x89PNG\0",
        "vendor/lib.py": "vendored = 1\n",
        "private/plan.py": "outside = 1\n",
    }
    config = f"{CONFIG}exclude_paths: [private/]\n"
    with (
        world(tmp_path, config=config, files=files) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint, "--dry-run")
        assert (done.exit_status, done.stderr) == (0, ""), done.stdout
        analyze = shown(endpoint, "analyze")
        listing = analyze["the files of the repository"].split()
        assert (
            listing == "Makefile deploy.py nightshift.yaml notes.txt shop.py test_shop.py".split()
        )
        assert analyze["file shop.py"] == files["shop.py"]
        assert not {"file deploy.py", "file .env", "file private/plan.py"} & analyze.keys()
        implement = shown(endpoint, "implement")
        first = next(name for name in implement if name.startswith("file "))
        assert first == "file test_shop.py", "the selected file comes first"
        assert json.loads(implement["the analysis"])["selected"] == FOUND["selected"]
        verify = shown(endpoint, "verify")
        assert (
            "+        self.assertEqual(total([10], 50), 5)"
            in verify["the change, as git diff shows it"]
        )
        assert TEST in verify["file test_shop.py"]
        mr = shown(endpoint, "mr")
        assert "Write note 11" in mr["the last commit messages"]
        everything = json.dumps([r.body for r in endpoint.messages])
        assert "never-shown" not in everything
        assert "MyOwnTokenOfDeploy99" not in everything


def test_no_key_is_needed_where_the_endpoint_is_ones_own(tmp_path: Path) -> None:
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint, OPENAI_API_KEY="")
        assert (done.exit_status, done.stderr) == (0, "")
        [given] = {r.headers["authorization"] for r in endpoint.messages}
        assert re.fullmatch(r"Bearer no-key-[0-9a-f]{32}", given)
        assert shop.result["total_cost_usd"] is None, "unknown, never 0"
        assert shop.result["total_tokens"] == 4400


def test_behind_the_boundary(tmp_path: Path) -> None:
    """The same in the strongest sandbox of this machine."""
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint, NIGHTSHIFT_ISOLATION="auto")
        assert (done.exit_status, done.stderr) == (0, ""), done.stdout
        assert len(shop.merge_requests) == 1
        shop.assert_put_back()


def test_a_block_that_does_not_fit_is_asked_for_once_more(tmp_path: Path) -> None:
    wrong = BLOCKS.replace("total([1, 2])", "total([1,2])")
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(turns(implement=[say(wrong), say(BLOCKS)]), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint)
        assert (done.exit_status, done.stderr) == (0, "")
        assert [bead for bead, _ in beads(shop)] == ["analyze", "implement", "verify", "mr"]
        again = [r for r in endpoint.messages if BEADS(r) == "implement"][1]
        assert [m["role"] for m in again.messages] == ["system", "user", "assistant", "user"]
        told = again.messages[-1]["content"]
        assert "block 1 (test_shop.py): SEARCH does not occur in the file" in told


def test_an_answer_that_never_fits_is_a_failed_attempt(tmp_path: Path) -> None:
    outside = BLOCKS.replace("test_shop.py\n", "../shop.tmp/x.py\n")
    script = turns(implement=[say(outside)] * 6)
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(script, bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint, "--category", "tests", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="1")
        assert done.exit_status == 0
        assert beads(shop)[:3] == [
            ("analyze", "ok"),
            ("implement", "bad_output"),
            ("implement", "bad_output"),
        ]
        second = [r for r in endpoint.messages if BEADS(r) == "implement"][2]
        assert "no . and no .. can stand in it" in second.prompt, "the next attempt is told why"
        assert shop.merge_requests == []
        shop.assert_put_back()


def test_a_verdict_that_is_no_json_is_never_a_pass(tmp_path: Path) -> None:
    script = turns(verify=[say("passed: true")] * 6)
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(script, bead_of=BEADS) as endpoint,
    ):
        night(shop, endpoint, "--category", "tests", NIGHTSHIFT_MAX_IMPLEMENT_RETRIES="0")
        assert beads(shop)[2] == ("verify", "bad_output")
        assert shop.merge_requests == []


def test_an_endpoint_that_knows_no_form_of_answers(tmp_path: Path) -> None:
    def model(request: Any) -> Turn:
        if "response_format" in request.body:
            return error(400, "invalid_request_error", "unknown field response_format")
        return turns()[BEADS(request)][0]

    with world(tmp_path, config=CONFIG) as shop, ModelEndpoint(model) as endpoint:
        done = night(shop, endpoint)
        assert (done.exit_status, done.stderr) == (0, "")
        kinds = [r.body.get("response_format", {}).get("type") for r in endpoint.messages]
        ladder = ["json_schema", "json_object", None]
        assert kinds == [*ladder, None, *ladder, *ladder]


def test_a_small_context_is_shown_less(tmp_path: Path) -> None:
    def model(request: Any) -> Turn:
        if len(request.prompt) > 30_000:
            return error(400, "invalid_request_error", "exceeds the context length of 8192 tokens")
        return turns()[BEADS(request)][0]

    big = {f"big{n}.py": f"value_{n} = 1\n" * 400 for n in range(12)}
    from tests.support.world import FILES

    with (
        world(tmp_path, config=CONFIG, files={**FILES, **big}) as shop,
        ModelEndpoint(model) as endpoint,
    ):
        done = night(shop, endpoint)
        assert (done.exit_status, done.stderr) == (0, "")
        assert len(shop.merge_requests) == 1
        assert "at most 6000 tokens of the repository" in done.stdout


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (error(401), "the model endpoint refuses the key (HTTP 401)"),
        (error(404, "not_found_error", "no such model"), "no such model"),
    ],
)
def test_an_endpoint_that_cannot_be_used_ends_the_night(
    tmp_path: Path, turn: Turn, text: str
) -> None:
    with (
        world(tmp_path, config=CONFIG) as shop,
        ModelEndpoint(lambda request: turn) as endpoint,
    ):
        done = night(shop, endpoint)
        assert done.exit_status == 5
        assert text in shop.result["reason"]
        assert shop.result["error_code"] == "E_PROVIDER_UNAVAILABLE"


def test_the_budget_is_kept(tmp_path: Path) -> None:
    with (
        world(tmp_path, config=PRICED) as shop,
        ModelEndpoint(turns(), bead_of=BEADS) as endpoint,
    ):
        done = night(shop, endpoint, NIGHTSHIFT_MAX_BUDGET_USD="0.001")
        assert done.exit_status == 0
        assert shop.result["outcome"] == "NO_IMPROVEMENT"
        assert "budget" in shop.result["reason"]
        assert endpoint.messages == []


@pytest.mark.parametrize(
    ("config", "env", "status", "text"),
    [
        (f"{PROVING}agent: patch\n", {}, 2, "models.implement: name the model of your endpoint"),
        (CONFIG, {"OPENAI_API_KEY": "", "NIGHTSHIFT_MODEL_ENDPOINT": ""}, 5, "no model: set"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_spent(
    tmp_path: Path, config: str, env: dict[str, str], status: int, text: str
) -> None:
    with world(tmp_path, config=config) as shop, ModelEndpoint([]) as endpoint:
        done = night(shop, endpoint, **env)
        shop.assert_nothing_spent(done, status, text)
        assert endpoint.requests == []
