"""The real claude CLI inside the sandbox, in every tier."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import tools
from tests.support.model_endpoint import ModelEndpoint
from tests.support.sandboxes import (
    IN_DOCKER,
    NEEDS_ROOT,
    mixed,
    owners,
    scripted,
    tier_or_skip,
    with_agent,
)
from tests.support.shop import BEADS, turns
from tests.support.turns import bash, error
from tests.support.world import CLAUDE, MODEL_KEY, PROVING, TOOLS, Done, World, world

REAL_CLI = f"agent_paths: [{CLAUDE.resolve().parent}]\n"
OPEN = "policy: {egress_hosts: [registry.example]}\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tools.open_folder() as folder:
        yield folder


def worked(shop: World, tier: str, **env: str) -> Done:
    """A night of the real agent, which opened a merge request in this tier."""
    script = {"implement": turns(shop.checkout)["implement"]}
    with ModelEndpoint(script, bead_of=BEADS) as endpoint:
        path = with_agent(shop, "real", scripted(f'exec {CLAUDE.resolve()} "$@"'))
        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url, PATH=path, **env)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert {request.headers["x-api-key"] for request in endpoint.messages} == {MODEL_KEY}
        assert endpoint.unscripted == []
    assert shop.result["outcome"] == "MR_CREATED"
    kept = ", ".join(f"{name} held" for name in ("files", "secrets", "network", "lifetime"))
    assert shop.result["isolation"] == f"{tier} ({kept})"
    shop.assert_restored()
    return done


def test_in_namespaces(open_folder: Path) -> None:
    with world(open_folder, config=PROVING + REAL_CLI) as shop:
        worked(shop, "namespaces", NIGHTSHIFT_ISOLATION=tier_or_skip("namespaces"))


@NEEDS_ROOT
def test_as_root_in_plain_docker_agents_get_a_user_of_their_own(open_folder: Path) -> None:
    """And every owner is back after the night."""
    with world(open_folder, config=PROVING + REAL_CLI) as shop:
        before = mixed(shop)
        shop.patch = IN_DOCKER
        done = worked(shop, "uid", NIGHTSHIFT_ISOLATION="auto")
        assert "namespaces does not work here" in done.log
        assert owners(shop.checkout) == before


def test_its_gateway_is_reached_beside_the_proxy(tmp_path: Path) -> None:
    """Until the endpoint is overloaded: the CLI would wait without end, and no other is tried."""
    busy = error(529, "overloaded_error", "Overloaded", retry_after="10000")
    with (
        world(tmp_path, config=OPEN) as shop,
        ModelEndpoint([bash("git ls-files"), busy]) as endpoint,
    ):
        done = shop.nightshift(
            "run",
            ANTHROPIC_BASE_URL=endpoint.url,
            NIGHTSHIFT_ISOLATION=tier_or_skip("landlock"),
            PATH=f"{TOOLS}:{shop.env['PATH']}",
        )
        assert (done.exit_status, done.stderr, endpoint.unscripted) == (5, "", [])
        assert "shop.py" in endpoint.messages[1].tool_results[0]
        result = shop.result
        assert (result["outcome"], result["error_code"]) == ("FAILED", "E_PROVIDER_UNAVAILABLE")
        assert result["reason"] == "the model endpoint is overloaded (HTTP 529)"
        assert [bead["status"] for bead in result["beads"]] == ["unavailable"]
        assert result["total_tokens"] == 1100
        assert done.last_line.startswith("✘ FAILED · E_PROVIDER_UNAVAILABLE · the model endpoint")
        assert b'"text": "egress' not in shop.products()["events.jsonl"]
        shop.assert_restored()
