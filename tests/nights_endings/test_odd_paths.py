"""Paths as agents write them, in whole nights: the verified change is never lost for a name."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import REAL, answer, append, plays
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, FOUND, GOOD, SELECTED, TEST
from tests.support.turns import answer as answered
from tests.support.world import PROVING, Done, World, world

UNRESOLVED = """
from gitlab_nightshift.stages.work import cited_files, handoff
handoff.resolve_paths = lambda handoff, tree: cited_files.ResolvedHandoff(handoff)
"""
"""The patch of a world that takes paths as they come."""
ODD = {
    "as Claude's tools name it": ["{top}/test_shop.py"],
    "outside": ["test_shop.py", "/etc/shadow"],
    "above": ["test_shop.py", "../.."],
    "NUL": ["test_shop.py", "a\0b"],
}


def night(shop: World, files: list[str], **more: Any) -> Done:
    """Analyze selects these files; Implement adds a test, which is run against mistakes planted in
    what was selected."""
    named = [name.replace("{top}", str(shop.checkout)) for name in files]
    found = {**FOUND, "selected": {**SELECTED, "files": named, **more}}
    change = [append("test_shop.py", TEST)]
    shop.agent.script(plays(GOOD, {"analyze": [answer(found)], "implement": change}))
    return shop.nightshift("run")


@pytest.mark.parametrize("files", ODD.values(), ids=ODD)
def test_an_odd_path_costs_nothing(tmp_path: Path, files: list[str]) -> None:
    with world(tmp_path / "without", config=PROVING) as shop:
        shop.patch = UNRESOLVED
        night(shop, files)
        selected = shop.bundle["proposal"]["analysis"]["selected"]
        assert selected["files"] != ["test_shop.py"], "told to people as it came"
    with world(tmp_path / "with", config=PROVING) as shop:
        evidence = [f"{shop.checkout}/test_shop.py:1: `import unittest`"]
        done = night(shop, files, evidence=evidence)
        assert done.exit_status == 0, done.log
        assert shop.bundle["proposal"]["analysis"]["selected"]["files"] == ["test_shop.py"]
        assert ("left out: " in done.log) is (len(files) > 1)
        shop.assert_restored()


def test_a_selection_of_nothing_here_is_refused_with_that_reason(tmp_path: Path) -> None:
    with world(tmp_path, config=PROVING) as shop:
        assert night(shop, ["/etc/shadow", "\x1b[31m"]).exit_status == 13
        statuses = {(bead["status"], bead["error"]) for bead in shop.result["beads"]}
        why = "selected: none of its files is one of this project: /etc/shadow, \\x1b[31m"
        assert statuses == {("no_handoff", why)}


def test_a_list_of_thousands_by_the_real_cli_is_cut(tmp_path: Path) -> None:
    """It checks the schema, and its report is longer than a pipe."""
    files = ["test_shop.py", *(f"src/some/name/of/a/file_{number}.py" for number in range(5_000))]
    found = {**FOUND, "selected": {**SELECTED, "files": files}}
    with world(tmp_path, plays(GOOD, {"analyze": REAL})) as shop:
        with ModelEndpoint({"analyze": [answered(found)]}, BEADS) as endpoint:
            done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)
        assert done.exit_status == 0, done.log
        assert len(shop.bundle["proposal"]["analysis"]["selected"]["files"]) == 200
