"""What nights in the sandbox's tiers have in common: tiers that a machine has, agents' programs."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox.tiers import ProofRow
from tests.support.programs import need_program
from tests.support.shop import DRAFT, FOUND, PASSED
from tests.support.world import FILES, Files, World

TIERS = ("namespaces", "uid", "landlock")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the uid tier needs root")
IN_DOCKER = "from tests.sandbox import docker_like; docker_like.confine()"
"""The patch of a world whose command runs under conditions like those of a container's root."""
CURL = "git -c alias.x='!curl --version' x"
"""The real CLI lets every git command pass; git starts a shell for this one."""
MAKE = "git -c alias.x='!make other; make test && echo made' x"
ONE_OPERATOR: Files = {
    **FILES,
    "shop.py": "def total(prices, discount=0):\n    return sum(prices) - discount\n",
}
"""A shop with little to plant mistakes in: nights with real starts try all that there are."""
MORE = "\\n    def test_discount(self):\\n        self.assertEqual(total([200, 100], 30), 270)\\n"
"""For ``printf``: a test of it that is worth something."""
RESULT = {"type": "result", "subtype": "success", "is_error": False}


def tier_or_skip(tier: str) -> str:
    """Namespaces need bubblewrap and a kernel that lets it work, which not every machine has."""
    if tier == "uid" and os.geteuid() != 0:
        pytest.skip("the uid tier needs root")
    if tier == "namespaces":
        need_program("bwrap")
    return tier


def scripted(implement: str) -> str:
    """An agent whose Implement is this shell command; the others say what they have to."""
    handoffs = {"analyze": FOUND, "implement": {}, "verify": PASSED, "mr": DRAFT}
    answers = {bead: {**RESULT, "structured_output": value} for bead, value in handoffs.items()}
    said = "\n".join(
        f"*-{bead}-*) echo {shlex.quote(json.dumps(answer))} ;;" for bead, answer in answers.items()
    )
    begin = f'#!/bin/sh\ncase "$HOME" in *-implement-*) {implement} ;; esac\n'
    return f'{begin}case "$HOME" in\n{said}\nesac\n'


def with_agent(shop: World, name: str, program: str) -> str:
    """The PATH with this program as the agent's CLI."""
    folder = shop.folder / name
    folder.mkdir()
    (folder / "claude").write_text(program)
    (folder / "claude").chmod(0o755)
    return f"{folder}:{shop.env['PATH']}"


def owners(root: Path) -> dict[str, tuple[int, int, int]]:
    """Owner, group and mode of everything but what the night leaves."""
    found = {}
    for path in (root, *root.rglob("*")):
        name, status = str(path.relative_to(root)), path.lstat()
        if name != "nightshift" and not name.startswith("nightshift/"):
            found[name] = (status.st_uid, status.st_gid, status.st_mode)
    return found


def mixed(shop: World) -> dict[str, tuple[int, int, int]]:
    """A checkout as a runner's helper and before_script leave it: owners of many kinds."""
    (shop.checkout / "build").mkdir()
    (shop.checkout / "build/tool").write_text("#!/bin/sh\n")
    (shop.checkout / "build/tool").chmod(0o4755)
    for name, owner in (("shop.py", 1000), ("docs", 1001), ("build", 33)):
        os.chown(shop.checkout / name, owner, owner)
    shop.look()
    return owners(shop.checkout)


def assert_gated(output: str) -> None:
    """Of ``CURL`` and ``MAKE`` only what is allowed was found."""
    assert "curl: not found" in output or "curl: command not found" in output
    assert "libcurl" not in output
    assert "nightshift: not allowed: make other; allowed: make test" in output
    assert "\nmade" in output


def read_row(shop: World, proof: ProofRow) -> Any:
    """What the night's proof of its sandbox says in a row."""
    [event] = shop.list_events("boundary_proven")
    [row] = [row for row in event["rows"] if row["title"] == proof.title]
    return row
