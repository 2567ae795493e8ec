"""Nights inside the sandbox: a hostile agent gets nothing, and every owner is back afterwards.

Each attack is shown to succeed without a boundary, so that none fails for another reason.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import tools
from tests.support.sandboxes import (
    CURL,
    IN_DOCKER,
    MAKE,
    NEEDS_ROOT,
    TIERS,
    assert_gated,
    mixed,
    owners,
    scripted,
    tier_or_skip,
    with_agent,
)
from tests.support.trees import kill_all
from tests.support.world import (
    BOT_TOKEN,
    JOB_TOKEN,
    MODEL_KEY,
    PLAIN,
    World,
    ended,
    git,
    wait_in,
    world,
)

HOSTILE = Path(__file__).parents[1] / "support" / "hostile.py"
SECRETS = (BOT_TOKEN, JOB_TOKEN, MODEL_KEY, "a-password-at-home")
PYTHON = Path("/usr/bin/python3")
OPEN_GATE = f"{PLAIN}profile: development\npolicy: {{gates: {{exec: auto_allow}}}}\n"
NO_LANDLOCK = """
from gitlab_nightshift.sandbox.inside import landlock
landlock.read_abi = lambda: 0
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tools.open_folder() as folder:
        yield folder


IN_GIT = "X-Secret: in the real configuration"


def attacked(shop: World, tier: str) -> tuple[dict[str, Any], str]:
    """What a hostile agent reports of its first bead, and what its commands print. A process with
    the job's environment runs beside it, as the job's shell does."""
    home = Path(shop.env["HOME"])
    (home / ".netrc").write_text("machine gitlab password a-password-at-home\n")
    git(shop.checkout, "config", "http.extraHeader", IN_GIT)
    shop.look()
    aside = shop.checkout.with_name("shop.nightshift") / "git"
    real = shop.checkout / ".git" if tier == "namespaces" else aside
    with subprocess.Popen(["sleep", "infinity"], env=shop.env) as shell:
        places = {
            "files": [
                str(real / "config"),
                f"{shop.checkout}.tmp/.gitlab-runner.ext.conf",
                str(home / ".netrc"),
                f"/proc/{shell.pid}/environ",
            ],
            "outside": str(shop.checkout.parent / "planted"),
            "port": int(shop.gitlab.url.rpartition(":")[2]),
            "daemon": str(shop.checkout / "alive"),
            "commands": f"{CURL}; {MAKE}",
        }
        text = HOSTILE.read_text().replace("@PLACES@", json.dumps(places))
        python = PYTHON if PYTHON.exists() else Path(sys.executable)  # one that every user may run
        path = with_agent(shop, "hostile", f"#!{python.resolve()}\n{text}")
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION=tier, PATH=path)
        shell.kill()
    assert (done.exit_status, done.stderr) == (5, ""), done.log
    log = shop.products()["logs/01-analyze-tests-1.out"].decode()
    first, _, commands = log.partition("\n")
    found: dict[str, Any] = json.loads(first)["found"]
    found["shell"] = found.pop(f"/proc/{shell.pid}/environ")
    return found, commands


@pytest.fixture
def read_by_all() -> Iterator[Path]:
    """A folder below /opt, where everybody may read, so that the job's own files are hidden by
    name; where only root may write there, as everywhere."""
    with tools.open_folder(Path("/opt" if os.access("/opt", os.W_OK) else "/tmp")) as folder:
        yield folder


@pytest.mark.parametrize("tier", TIERS)
def test_a_hostile_agent_gets_nothing(read_by_all: Path, tier: str) -> None:
    """Nor in a job whose home, checkout and files are below /tmp: ``attacks/test_night.py``."""
    with world(read_by_all) as shop:
        found, commands = attacked(shop, tier_or_skip(tier))
        assert_gated(commands)
        environment = found.pop("environment")
        assert "GITLAB_TOKEN" not in environment
        assert MODEL_KEY not in environment
        for name, text in found.items():
            assert "[redacted]" not in text, f"{name} led to a secret"
            assert not any(secret in text for secret in SECRETS), name
        opened = [name for name, text in found.items() if text.startswith("open")]
        # It may see its own processes, and in namespaces it has a /tmp of its own. In place of the
        # real .git there is one of its own.
        own_tmp = {"outside"} if shop.folder.is_relative_to("/tmp") else set()
        assert set(opened) <= {"daemon", "ancestors", str(shop.checkout / ".git/config"), *own_tmp}
        assert IN_GIT not in str(found)
        assert not (shop.checkout.parent / "planted").exists()
        assert not (shop.checkout / "alive").exists(), "what it left behind is ended"
        shop.assert_restored()


def test_without_a_boundary_and_a_gate_it_gets_all_of_it(tmp_path: Path) -> None:
    with world(tmp_path, config=OPEN_GATE) as shop:
        found, commands = attacked(shop, "none")
        assert "libcurl" in commands
        assert "No rule to make target" in commands
        assert "GITLAB_TOKEN" not in found.pop("environment"), "the allowlist holds all the same"
        assert [name for name, text in found.items() if not text.startswith("open")] == []
        assert "GITLAB_TOKEN=[redacted]" in found["shell"]
        assert "machine gitlab password [redacted]" in str(found), "the redactor knows it, too"
        assert IN_GIT in str(found)
        (shop.checkout.parent / "planted").unlink()
        assert shop.result["isolation"] == "none"


@NEEDS_ROOT
def test_a_night_killed_within_a_bead_is_undone_by_the_next(open_folder: Path) -> None:
    with world(open_folder) as shop:
        before = mixed(shop)
        stuck = "rm -f shop.py; echo evil > run.sh; echo x > planted; exec sleep 600"
        path = with_agent(shop, "stuck", f"#!/bin/sh\n{stuck}\n")
        night = shop.start("run", NIGHTSHIFT_ISOLATION="uid", PATH=path)
        wait_in(night, (shop.checkout / "planted").exists, "the agent at work")
        user = (shop.checkout / "planted").stat().st_uid
        assert user not in {0, 33, 1000, 1001}
        kill_all(night.pid)
        ended(night)
        assert owners(shop.checkout)["run.sh"][0] == user
        done = shop.nightshift("plan")

        assert done.exit_status == 0, done.log + done.stderr
        assert owners(shop.checkout) == before
        shop.assert_restored()


@NEEDS_ROOT
def test_a_checkout_that_cannot_change_its_owner_leaves_landlock(open_folder: Path) -> None:
    """Here objects that only root may read; NFS and read-only mounts end the same way."""
    with world(open_folder) as shop:
        for part in (shop.checkout / ".git/objects").rglob("*"):
            part.chmod(part.stat().st_mode & 0o700)
        shop.look()
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="uid")
        why = "uid does not work here: git objects cannot be shared"
        shop.assert_nothing_spent(done, 2, f"isolation: {why}")
        assert shop.checkout.stat().st_uid == (shop.checkout / "test_shop.py").stat().st_uid == 0
        shop.patch = IN_DOCKER
        path = with_agent(shop, "scripted", scripted("echo '# x' >> test_shop.py"))
        looked = shop.nightshift("doctor", "--boundary", NIGHTSHIFT_ISOLATION="auto", PATH=path)
        assert looked.log.startswith("The sandbox is landlock, "), looked.log
        assert why in looked.log
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="auto", PATH=path)
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        assert why in done.log
        assert shop.result["isolation"].startswith("landlock (")
        shop.assert_restored()
        assert shop.checkout.stat().st_uid == (shop.checkout / "test_shop.py").stat().st_uid == 0


@NEEDS_ROOT
def test_where_the_kernel_has_no_landlock_the_user_alone_keeps_the_secrets(
    open_folder: Path,
) -> None:
    with world(open_folder) as shop:
        shop.patch = NO_LANDLOCK
        shop.env["NIGHTSHIFT_ACCEPT_PARTIAL"] = "files"
        shop.checkout.with_name("shop.tmp").chmod(0o700)
        Path(shop.env["HOME"]).chmod(0o700)
        found, _ = attacked(shop, "uid")
        assert shop.result["isolation"].startswith("uid (files partial as accepted, secrets held, ")
        opened = {name for name, text in found.items() if text.startswith("open")}
        assert opened <= {"daemon", "ancestors"}
        assert not any(secret in str(found) for secret in SECRETS)
        shop.assert_restored()


@NEEDS_ROOT
def test_a_tier_that_is_asked_for_by_name_is_never_replaced(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="uid")
        assert done.exit_status == 2
        assert "isolation: uid does not work here: " in done.last_line
        assert "may only be entered by its owner" in done.last_line  # pytest's own folder
        assert shop.agent.seen == []
