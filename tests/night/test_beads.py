"""What the beads are given: analysis, models, budgets, commands, environment."""

import json
from pathlib import Path

import pytest

from tests.support.agent import Play, plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import GOOD, SELECTED, bill, nothing, priced
from tests.support.world import FILES, PROVING, world

STUB = '{"result": "NO_IMPROVEMENT", "reason": "pending"}'


def test_the_beads_are_given_the_analysis(tmp_path: Path) -> None:
    with world(tmp_path, GOOD, config=PROVING) as shop:
        shop.nightshift("run")
        analyze, implement, verify, mr = shop.agent.seen
        assert analyze.handoff == ["", STUB]
        assert json.loads(implement.handoff[0])["selected"] == SELECTED
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


def test_models_and_budgets_of_the_beads(tmp_path: Path) -> None:
    prices = ", ".join(f"{name}: {{input: 5, output: 25}}" for name in ("a-1", "i-1", "v-1", "m-1"))
    config = (
        "models: {analyze: a-1, implement: i-1, verify: v-1, mr: m-1}\nmax_budget_usd: 2\n"
        f"prices: {{{prices}}}\n"
    )
    dear = {bead: priced(play, 0.3) for bead, play in GOOD.items()}
    with world(tmp_path, dear, config=config) as shop, ModelEndpoint(bill) as endpoint:
        shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        assert [bead.option("--model") for bead in shop.agent.seen] == ["a-1", "i-1", "v-1", "m-1"]
        budgets = [bead.option("--max-budget-usd") for bead in shop.agent.seen]
        assert budgets == ["2.0000", "1.7000", "1.4000", "1.1000"]
        assert [bead["model"] for bead in shop.result["beads"]] == ["a-1", "i-1", "v-1", "m-1"]
        assert shop.result["total_cost_usd"] == pytest.approx(1.2)


def test_an_unknown_cost_stays_unknown(tmp_path: Path) -> None:
    """A model without a price: its tokens are counted, its cost is not guessed."""
    scripts = plays(GOOD, {"verify": priced(GOOD["verify"], 0.01)})
    config = "models: {verify: made-up-1}\n"
    with world(tmp_path, scripts, config=config) as shop, ModelEndpoint(bill) as endpoint:
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        assert shop.result["outcome"] == "MR_CREATED"
        assert shop.result["total_cost_usd"] is None
        assert "cost unknown, 2k tokens" in done.last_line
        assert "NIGHT_COST_USD=\n" in shop.products()["nightshift.env"].decode()


def test_a_category_of_the_teams_own(tmp_path: Path) -> None:
    config = "categories: {spelling: 'Look for typos in comments.'}\n"
    with world(tmp_path, plays(GOOD, {"analyze-spelling": nothing()}), config=config) as shop:
        done = shop.nightshift("run", "--category", "spelling")
        assert done.exit_status == 0
        assert shop.agent.names[:2] == ["analyze-spelling-1", "analyze-tests-1"]
        assert "What counts: Look for typos in comments." in shop.agent.seen[0].prompt
        assert shop.result["category_used"] == "tests (fallback from spelling)"


def test_an_agents_allowed_commands_are_a_setting(tmp_path: Path) -> None:
    config = "allowed_commands: [ls, make test -k]\n"
    with world(tmp_path, {"analyze": nothing()}, config=config) as shop:
        shop.nightshift("run")
        rules = shop.agent.seen[0].options("--allowedTools")
        assert rules[2:] == ["Bash(ls *)", "Bash(make test -k)"]


def test_agent_env_is_passed_and_nothing_else(tmp_path: Path) -> None:
    scripts: dict[str, Play] = {"analyze": nothing()}
    with world(tmp_path, scripts, config="agent_env: [JAVA_HOME]\n") as shop:
        extra = {"JAVA_HOME": "/opt/java", "LD_PRELOAD": "", "NODE_OPTIONS": "--no-warnings"}
        shop.nightshift("run", **extra, HTTPS_PROXY="http://proxy:3128", BASH_ENV="/tmp/x")
        env = shop.agent.seen[0].env
        assert env["JAVA_HOME"] == "/opt/java"
        others = {"NODE_OPTIONS", "LD_PRELOAD", "BASH_ENV", "CI", "PYTHONPATH", "HTTPS_PROXY"}
        assert not others & set(env)
        assert not [name for name in env if name.startswith(("CI_", "GITLAB", "NIGHTSHIFT"))]


def test_verify_commands_get_no_key_and_no_credential(tmp_path: Path) -> None:
    """A build needs neither, and the change under test may be hostile."""
    told = tmp_path / "environment"
    config = f"verify_commands: ['sh env.sh {told}']\nagent_env: [JAVA_HOME]\n"
    files = {**FILES, "env.sh": 'env -0 > "$1"\n'}
    with world(tmp_path / "w", GOOD, files=files, config=config) as shop:
        shop.nightshift("run", "--dry-run", JAVA_HOME="/opt/java", GITLAB_TOKEN="")
        env = dict(row.split("=", 1) for row in told.read_text().split("\0") if row)
        shell = {"PWD", "_", "OLDPWD", "SHLVL"}
        known = {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "USER", "SHELL", "JAVA_HOME"}
        known.add("JAVA_TOOL_OPTIONS")  # the fresh HOME and TMPDIR, for Java
        assert set(env) - shell == known
        assert env["HOME"] != shop.env["HOME"]
