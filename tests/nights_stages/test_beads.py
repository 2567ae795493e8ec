"""What the beads are given: analysis, models, budgets, commands, environment."""

import json
from pathlib import Path

import pytest

from tests.support.agent import crash, plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import FOUND, GOOD, SELECTED, bill, completed, priced
from tests.support.world import FILES, World, world

STUB = '{"result": "NO_IMPROVEMENT", "reason": "pending"}'
MODELS = ("a-1", "i-1", "v-1", "m-1")
PRICES = ", ".join(f"{name}: {{input: 5, output: 25}}" for name in MODELS)
CONFIG = f"""\
models: {{analyze: a-1, implement: i-1, verify: v-1, mr: m-1}}
max_budget_usd: 2
prices: {{{PRICES}}}
allowed_commands: [ls, make test -k]
agent_env: [JAVA_HOME]
verify_commands: [make test, 'sh env.sh @TOLD@']
"""
WORDS = "instructions: {all: 'Ask for {{money}}.', docs: 'British.'}\nvariables: {money: Euro}\n"


def test_what_the_beads_of_a_night_are_given(tmp_path: Path) -> None:
    told = tmp_path / "environment"
    files = {**FILES, "env.sh": 'env -0 > "$1"\n'}
    dear = {bead: priced(play, 0.3) for bead, play in GOOD.items()}
    config = CONFIG.replace("@TOLD@", str(told)) + WORDS
    with (
        world(tmp_path / "w", dear, config=config, files=files) as shop,
        ModelEndpoint(bill) as endpoint,
    ):
        extra = {"JAVA_HOME": "/opt/java", "LD_PRELOAD": "", "NODE_OPTIONS": "--no-warnings"}
        extra |= {"HTTPS_PROXY": "http://proxy:3128", "BASH_ENV": "/tmp/x"}
        shop.nightshift("run", "--dry-run", ANTHROPIC_BASE_URL=endpoint.url, **extra)
        _analysis(shop)
        _a_teams_own_words_for_their_category(shop)
        _models_and_budgets(shop)
        _rules_and_environment(shop)
        _environment_of_commands(shop, told)


def _analysis(shop: World) -> None:
    analyze, implement, verify, mr = shop.agent.seen
    assert analyze.handoff == ["", STUB]
    assert json.loads(implement.handoff[0])["selected"] == completed(FOUND)["selected"]
    assert len(implement.handoff) == 1
    assert json.loads(verify.handoff[1]) == {"passed": False, "error_details": "pending"}
    assert [json.loads(bead.handoff[0]) for bead in (verify, mr)] == [
        json.loads(implement.handoff[0])
    ] * 2
    for bead in (implement, verify, mr):
        assert SELECTED["description"] in bead.prompt
    assert "- notes.txt" in analyze.prompt.partition("<recently_changed_files>")[2]
    assert "- make test" in implement.prompt.partition("<must_succeed_on_the")[2]
    folders = [Path(bead.env["HOME"]).parent for bead in shop.agent.seen]
    assert len(set(folders)) == 4
    assert not any(folder.exists() for folder in folders)


def _a_teams_own_words_for_their_category(shop: World) -> None:
    given = ["The team adds: Ask for Euro." in bead.prompt for bead in shop.agent.seen]
    assert given == [True, True, True, False], "the MR bead gets no guidance"
    assert not [bead for bead in shop.agent.seen if "British" in bead.prompt]


def _models_and_budgets(shop: World) -> None:
    assert [bead.option("--model") for bead in shop.agent.seen] == [*MODELS]
    budgets = [bead.option("--max-budget-usd") for bead in shop.agent.seen]
    assert budgets == ["2.0000", "1.7000", "1.4000", "1.1000"]
    assert [bead["model"] for bead in shop.result["beads"]] == [*MODELS]
    assert shop.result["total_cost_usd"] == pytest.approx(1.2)


def _rules_and_environment(shop: World) -> None:
    """What ``agent_env`` names is passed, and nothing else of the job."""
    analyze = shop.agent.seen[0]
    assert analyze.options("--allowedTools")[2:4] == ["Bash(ls *)", "Bash(make test -k)"]
    assert analyze.env["JAVA_HOME"] == "/opt/java"
    others = {"NODE_OPTIONS", "LD_PRELOAD", "BASH_ENV", "CI", "PYTHONPATH", "HTTPS_PROXY"}
    assert not others & set(analyze.env)
    assert not [name for name in analyze.env if name.startswith(("CI_", "GITLAB", "NIGHTSHIFT"))]


def _environment_of_commands(shop: World, told: Path) -> None:
    """No key and no credential: a build needs neither, and the change under test may be hostile."""
    env = dict(row.split("=", 1) for row in told.read_text().split("\0") if row)
    shell = {"PWD", "_", "OLDPWD", "SHLVL"}
    known = {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER", "SHELL", "JAVA_HOME"}
    known.add("JAVA_TOOL_OPTIONS")  # the fresh HOME and TMPDIR, for Java
    assert set(env) - shell == known
    assert env["HOME"] != shop.env["HOME"]


def test_a_category_of_the_teams_own_and_an_unknown_cost(tmp_path: Path) -> None:
    """A model without a price: the tokens are counted, those of a crashed bead too, and the cost is
    not guessed."""
    config = (
        "categories: {spelling: 'Look for typos in comments.'}\n"
        "models: {analyze: made-up-1, verify: made-up-2}\n"
    )
    crashed = priced([crash(11)], 500 * 5e-6)
    own = {"analyze-spelling": crashed, "verify": priced(GOOD["verify"], 0.01)}
    with world(tmp_path, plays(GOOD, own), config=config) as shop, ModelEndpoint(bill) as endpoint:
        env = {"ANTHROPIC_BASE_URL": endpoint.url}
        done = shop.nightshift("run", "--category", "spelling", **env)
        assert (done.exit_status, endpoint.requests) == (2, [])
        assert "E_CONFIG · prices: none is known for made-up-1, made-up-2, so" in done.last_line
        env["NIGHTSHIFT_MAX_TOKENS"] = "100000"
        done = shop.ends(13, "run", "--category", "spelling", **env)
        result = shop.result
        assert result["reason"].startswith("1 of 2 categories analysed, 1 crashed: spelling")
        assert shop.agent.names[:2] == ["analyze-spelling-1", "analyze-tests-1"]
        assert "What counts: Look for typos in comments." in shop.agent.seen[0].prompt
        assert result["category_used"] == "tests (fallback from spelling)"
        assert result["outcome"] == "MR_CREATED"
        used = [(bead["status"], *bead["usage"].values()) for bead in result["beads"]]
        nothing, told = ("ok", 0, 0, 0, 0), (0, 0)
        assert used == [
            ("crashed", None, 496, *told),
            *(nothing, nothing, ("ok", None, 1996, *told), nothing),
        ]
        assert (result["total_cost_usd"], result["total_tokens"]) == (None, 2492)
        assert "cost not known, 2k tokens" in done.last_line
        assert "NIGHT_COST_USD=\n" in shop.products()["nightshift.env"].decode()
