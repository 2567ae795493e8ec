"""Nights inside the sandbox: the real agent works there, and a hostile one gets nothing.

Each attack is shown to succeed without a boundary, so that none fails for another reason.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, turns
from tests.support.trees import wait_for
from tests.support.world import (
    BOT_TOKEN,
    JOB_TOKEN,
    MODEL_KEY,
    PROVING,
    TOOLS,
    World,
    world,
)

HOSTILE = Path(__file__).parents[1] / "support" / "hostile.py"
SECRETS = (BOT_TOKEN, JOB_TOKEN, MODEL_KEY, "a-password-at-home")


TIERS = ("namespaces", "uid", "landlock")
PYTHON = Path("/usr/bin/python3")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the uid tier needs root")
DOCKER_LIKE = Path(__file__).parents[1] / "host/sandbox/docker_like.py"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def tier_or_skip(tier: str) -> str:
    """Namespaces need bubblewrap, which not every machine has; in CI it has to be there."""
    if tier == "uid" and os.geteuid() != 0:
        pytest.skip("the uid tier needs root")
    if tier == "namespaces" and not shutil.which("bwrap"):
        if os.environ.get("CI"):
            pytest.fail("bubblewrap is not installed")
        pytest.skip("bubblewrap is not installed")
    return tier


@pytest.mark.parametrize("tier", TIERS)
def test_the_real_agent_works_in_the_sandbox(open_folder: Path, tier: str) -> None:
    with (
        world(open_folder, config=PROVING) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        path = f"{TOOLS}:{shop.env['PATH']}"
        done = shop.nightshift(
            "run",
            ANTHROPIC_BASE_URL=endpoint.url,
            NIGHTSHIFT_ISOLATION=tier_or_skip(tier),
            PATH=path,
        )
        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        assert shop.result["outcome"] == "MR_CREATED"
        kept = ", ".join(f"{name} held" for name in ("files", "secrets", "network", "lifetime"))
        assert shop.result["isolation"] == f"{tier} ({kept})"
        assert {request.headers["x-api-key"] for request in endpoint.messages} == {MODEL_KEY}
        shop.assert_put_back()


def attacked(shop: World, tier: str) -> dict[str, Any]:
    """What a hostile agent reports of its first bead."""
    home = Path(shop.env["HOME"])
    (home / ".netrc").write_text("machine gitlab password a-password-at-home\n")
    aside = shop.checkout.with_name("shop.nightshift")
    places = {
        "files": [
            str(aside / "git" / "config"),
            f"{shop.checkout}.tmp/.gitlab-runner.ext.conf",
            str(home / ".netrc"),
        ],
        "outside": str(shop.checkout.parent / "planted"),
        "port": int(shop.gitlab.url.rpartition(":")[2]),
        "daemon": str(shop.checkout / "alive"),
    }
    agent = shop.folder / "hostile"
    agent.mkdir()
    text = HOSTILE.read_text().replace("@PLACES@", json.dumps(places))
    python = PYTHON if PYTHON.exists() else Path(sys.executable)  # one that every user may run
    (agent / "claude").write_text(f"#!{python.resolve()}\n{text}")
    (agent / "claude").chmod(0o755)
    done = shop.nightshift(
        "run",
        "--category",
        "docs",
        NIGHTSHIFT_ISOLATION=tier,
        PATH=f"{agent}:{shop.env['PATH']}",
    )
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    log = shop.products()["logs/01-analyze-docs-1.out"].decode()
    found: dict[str, Any] = json.loads(log.splitlines()[0])["found"]
    return found


@pytest.mark.parametrize("tier", TIERS)
def test_a_hostile_agent_gets_nothing(open_folder: Path, tier: str) -> None:
    with world(open_folder) as shop:
        found = attacked(shop, tier_or_skip(tier))
        environment = found.pop("environment")
        assert "GITLAB_TOKEN" not in environment
        assert MODEL_KEY not in environment
        for name, text in found.items():
            assert "[redacted]" not in text, f"{name} led to a secret"
            assert not any(secret in text for secret in SECRETS), name
        opened = [name for name, text in found.items() if text.startswith("open")]
        # Its own processes are its own, and in namespaces it writes into a /tmp of its own.
        assert set(opened) <= {"daemon", "ancestors", "outside"}
        assert not (shop.checkout.parent / "planted").exists()
        time.sleep(0.2)
        assert not (shop.checkout / "alive").exists(), "what it left behind is ended"
        shop.assert_put_back()


def test_without_a_boundary_it_gets_all_of_it(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        found = attacked(shop, "none")
        assert "GITLAB_TOKEN" not in found.pop("environment"), "the allowlist holds all the same"
        assert [name for name, text in found.items() if not text.startswith("open")] == []
        assert "GITLAB_TOKEN=[redacted]" in found["ancestors"]
        assert "a-password-at-home" in str(found)
        (shop.checkout.parent / "planted").unlink()
        assert shop.result["isolation"] == "none"


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


def in_docker(shop: World) -> None:
    """From here on commands run under conditions like those of a container's root."""
    shop.python = shop.folder / "python"
    shop.python.write_text(f'#!/bin/sh\nexec {PYTHON} {DOCKER_LIKE} -- {sys.executable} "$@"\n')
    shop.python.chmod(0o755)


@NEEDS_ROOT
def test_every_owner_is_back_after_a_night(open_folder: Path) -> None:
    with (
        world(open_folder, config=PROVING) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        before = mixed(shop)
        path = f"{TOOLS}:{shop.env['PATH']}"
        done = shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_ISOLATION="uid", PATH=path
        )
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        assert owners(shop.checkout) == before
        shop.assert_put_back()


@NEEDS_ROOT
def test_a_night_killed_within_a_bead_is_undone_by_the_next(open_folder: Path) -> None:
    with world(open_folder) as shop:
        before = mixed(shop)
        agent = shop.folder / "stuck"
        agent.mkdir()
        (agent / "claude").write_text(
            "#!/bin/sh\nrm -f shop.py; echo evil > run.sh; echo x > planted; exec sleep 60\n"
        )
        (agent / "claude").chmod(0o755)
        path = f"{agent}:{shop.env['PATH']}"
        night = shop.start("run", NIGHTSHIFT_ISOLATION="uid", PATH=path)
        wait_for((shop.checkout / "planted").exists, "the agent at work")
        user = (shop.checkout / "planted").stat().st_uid
        assert user not in {0, 33, 1000, 1001}
        night.send_signal(signal.SIGKILL)
        night.communicate()
        assert owners(shop.checkout)["run.sh"][0] == user
        done = shop.nightshift("plan")

        assert done.exit_status == 0, done.log + done.stderr
        assert owners(shop.checkout) == before
        shop.assert_put_back()


@NEEDS_ROOT
def test_as_root_in_plain_docker_agents_get_a_user_of_their_own(open_folder: Path) -> None:
    with (
        world(open_folder, config=PROVING) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        in_docker(shop)
        done = shop.nightshift(
            "run",
            ANTHROPIC_BASE_URL=endpoint.url,
            NIGHTSHIFT_ISOLATION="auto",
            PATH=f"{TOOLS}:{shop.env['PATH']}",
        )
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        assert "namespaces does not work here" in done.log
        assert shop.result["isolation"].startswith("uid (files held, secrets held, network held")
        shop.assert_put_back()


@NEEDS_ROOT
def test_a_checkout_that_cannot_change_its_owner_leaves_landlock(open_folder: Path) -> None:
    """Here objects that only root may read; NFS and read-only mounts end the same way."""
    with (
        world(open_folder) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        for part in (shop.checkout / ".git/objects").rglob("*"):
            part.chmod(part.stat().st_mode & 0o700)
        shop.look()
        path = f"{TOOLS}:{shop.env['PATH']}"
        done = shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_ISOLATION="uid", PATH=path
        )
        assert done.exit_status == 2
        assert "isolation: uid does not work here: git objects cannot be shared" in done.last_line
        in_docker(shop)
        done = shop.nightshift(
            "run", ANTHROPIC_BASE_URL=endpoint.url, NIGHTSHIFT_ISOLATION="auto", PATH=path
        )
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        assert "uid does not work here: git objects cannot be shared" in done.log
        assert shop.result["isolation"].startswith("landlock (")
        shop.assert_put_back()


@NEEDS_ROOT
def test_where_the_kernel_has_no_landlock_the_user_alone_keeps_the_secrets(
    open_folder: Path,
) -> None:
    with world(open_folder) as shop:
        code = (
            "import sys; from gitlab_nightshift import cli;"
            "from gitlab_nightshift.host.sandbox.inside import landlock;"
            "landlock.abi = lambda: 0; sys.exit(cli.main(sys.argv[1:]))"
        )
        shop.python = shop.folder / "python"
        shop.python.write_text(f"#!/bin/sh\nshift 2; exec {sys.executable} -c '{code}' \"$@\"\n")
        shop.python.chmod(0o755)
        shop.checkout.with_name("shop.tmp").chmod(0o700)
        Path(shop.env["HOME"]).chmod(0o700)
        found = attacked(shop, "uid")
        assert shop.result["isolation"].startswith("uid (files partial, secrets held, network held")
        opened = {name for name, text in found.items() if text.startswith("open")}
        assert opened <= {"daemon", "ancestors"}
        assert not any(secret in str(found) for secret in SECRETS)
        shop.assert_put_back()


@NEEDS_ROOT
def test_a_tier_that_is_asked_for_by_name_is_never_replaced(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="uid")
        assert done.exit_status == 2
        assert "isolation: uid does not work here: " in done.last_line
        assert "may only be entered by its owner" in done.last_line  # pytest's own folder
        assert shop.agent.seen == []
