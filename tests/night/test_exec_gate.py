"""The exec gate in whole nights: what the real agent's shell finds by name, in every tier."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.night.test_boundary import TIERS, open_folder, tier_or_skip
from tests.support import turns as model
from tests.support.agent import plays, sh
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, GOOD, turns
from tests.support.world import PROVING, TOOLS, World, world

__all__ = ["open_folder"]
CURL = "git -c alias.x='!curl --version' x"
"""The CLI lets every git command pass; git starts a shell for this one."""
MAKE = "git -c alias.x='!make other; make test && echo made' x"


def results(endpoint: ModelEndpoint) -> str:
    """What the agent's commands printed, as its CLI sent it to the model."""
    found: list[str] = []
    for request in endpoint.messages:
        for message in request.body["messages"]:
            parts: Any = message["content"]
            for part in parts if isinstance(parts, list) else []:
                if part.get("type") == "tool_result":
                    found.append(model.text_of(part["content"]))
    return "\n".join(found)


def looked_for(shop: World, *args: str, **env: str) -> str:
    """What the commands of Analyze printed in a night with the real CLI."""
    said = turns(shop.checkout)
    said["analyze"] = [model.bash(CURL), model.bash(MAKE), *said["analyze"]]
    with ModelEndpoint(said, bead_of=BEADS) as endpoint:
        path = f"{TOOLS}:{shop.env['PATH']}"
        done = shop.nightshift("run", *args, ANTHROPIC_BASE_URL=endpoint.url, PATH=path, **env)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED"
        return results(endpoint)


@pytest.mark.parametrize("tier", [*TIERS, "none"])
def test_agent_finds_what_is_allowed_and_nothing_else(open_folder: Path, tier: str) -> None:
    with world(open_folder, config=PROVING) as shop:
        told = looked_for(shop, NIGHTSHIFT_ISOLATION=tier_or_skip(tier))
        assert "curl: not found" in told or "curl: command not found" in told
        assert "libcurl" not in told
        assert "nightshift: not allowed: make other; allowed: make test" in told
        assert "\nmade" in told
        shop.assert_put_back()


def test_open_gate_in_development(open_folder: Path) -> None:
    """The same commands with the gate open: it was the fence that stopped them."""
    config = f"{PROVING}profile: development\npolicy: {{gates: {{exec: auto_allow}}}}\n"
    with world(open_folder, config=config) as shop:
        told = looked_for(shop)
        assert "libcurl" in told
        assert "No rule to make target" in told


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[World]:
    gates = "{exec: auto_allow, network: auto_allow}"
    with world(tmp_path, GOOD, config=f"policy: {{gates: {gates}}}\n") as shop:
        yield shop


def test_what_opens_nothing_in_a_night_is_told(closed: World) -> None:
    """Nobody is there to ask, and no setting opens the whole network."""
    planted = closed.folder / "planted"
    closed.agent.script(plays(GOOD, {"analyze": [sh(f"curl -V >{planted}"), *GOOD["analyze"]]}))
    done = closed.nightshift("run")
    assert done.exit_status == 0
    for name, listed in (("exec", "allowed_commands"), ("network", "policy.egress_hosts")):
        text = f"policy.gates.{name}: auto_allow is deny in a night: only what {listed} names"
        assert f"warning: {text} is open" in done.log
    assert planted.read_text() == ""
    for bead in closed.agent.seen:
        assert "Bash" not in bead.options("--allowedTools")
