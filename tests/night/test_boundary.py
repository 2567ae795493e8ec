"""Nights inside the sandbox: the real agent works there, and a hostile one gets nothing.

Each attack is shown to succeed without a boundary, so that none fails for another reason.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, DRAFT, FOUND, PASSED, turns
from tests.support.trees import wait_for
from tests.support.world import (
    BOT_TOKEN,
    CLAUDE,
    JOB_TOKEN,
    MODEL_KEY,
    PROVING,
    Done,
    World,
    ended,
    git,
    world,
)

HOSTILE = Path(__file__).parents[1] / "support" / "hostile.py"
REAL_CLI = f"agent_paths: [{CLAUDE.resolve().parent}]\n"
RESULT = {"type": "result", "is_error": False}
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
    shop.assert_put_back()
    return done


def test_the_real_agent_works_in_namespaces(open_folder: Path) -> None:
    with world(open_folder, config=PROVING + REAL_CLI) as shop:
        worked(shop, "namespaces", NIGHTSHIFT_ISOLATION=tier_or_skip("namespaces"))


IN_GIT = "X-Secret: in the real configuration"


def attacked(shop: World, tier: str) -> dict[str, Any]:
    """What a hostile agent reports of its first bead. A process with the job's environment runs
    beside it, as the job's shell does."""
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
        }
        text = HOSTILE.read_text().replace("@PLACES@", json.dumps(places))
        python = PYTHON if PYTHON.exists() else Path(sys.executable)  # one that every user may run
        path = with_agent(shop, "hostile", f"#!{python.resolve()}\n{text}")
        done = shop.nightshift("run", "--category", "docs", NIGHTSHIFT_ISOLATION=tier, PATH=path)
        shell.kill()
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    log = shop.products()["logs/01-analyze-docs-1.out"].decode()
    found: dict[str, Any] = json.loads(log.splitlines()[0])["found"]
    found["shell"] = found.pop(f"/proc/{shell.pid}/environ")
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
        # There stands a .git of its own in the place of the real one.
        assert set(opened) <= {"daemon", "ancestors", "outside", str(shop.checkout / ".git/config")}
        assert IN_GIT not in str(found)
        assert not (shop.checkout.parent / "planted").exists()
        assert not (shop.checkout / "alive").exists(), "what it left behind is ended"
        shop.assert_put_back()


def test_without_a_boundary_it_gets_all_of_it(tmp_path: Path) -> None:
    with world(tmp_path) as shop:
        found = attacked(shop, "none")
        assert "GITLAB_TOKEN" not in found.pop("environment"), "the allowlist holds all the same"
        assert [name for name, text in found.items() if not text.startswith("open")] == []
        assert "GITLAB_TOKEN=[redacted]" in found["shell"]
        assert "a-password-at-home" in str(found) and IN_GIT in str(found)
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
def test_a_night_killed_within_a_bead_is_undone_by_the_next(open_folder: Path) -> None:
    with world(open_folder) as shop:
        before = mixed(shop)
        stuck = "rm -f shop.py; echo evil > run.sh; echo x > planted; exec sleep 600"
        path = with_agent(shop, "stuck", f"#!/bin/sh\n{stuck}\n")
        night = shop.start("run", NIGHTSHIFT_ISOLATION="uid", PATH=path)
        wait_for((shop.checkout / "planted").exists, "the agent at work")
        user = (shop.checkout / "planted").stat().st_uid
        assert user not in {0, 33, 1000, 1001}
        night.send_signal(signal.SIGKILL)
        ended(night)
        assert owners(shop.checkout)["run.sh"][0] == user
        done = shop.nightshift("plan")

        assert done.exit_status == 0, done.log + done.stderr
        assert owners(shop.checkout) == before
        shop.assert_put_back()


@NEEDS_ROOT
def test_as_root_in_plain_docker_agents_get_a_user_of_their_own(open_folder: Path) -> None:
    """And every owner is back after the night."""
    with world(open_folder, config=PROVING + REAL_CLI) as shop:
        before = mixed(shop)
        in_docker(shop)
        done = worked(shop, "uid", NIGHTSHIFT_ISOLATION="auto")
        assert "namespaces does not work here" in done.log
        assert owners(shop.checkout) == before


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
        in_docker(shop)
        path = with_agent(shop, "scripted", scripted("echo '# x' >> test_shop.py"))
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="auto", PATH=path)
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        assert why in done.log
        assert shop.result["isolation"].startswith("landlock (")
        shop.assert_put_back()


@NEEDS_ROOT
def test_where_the_kernel_has_no_landlock_the_user_alone_keeps_the_secrets(
    open_folder: Path,
) -> None:
    with world(open_folder) as shop:
        code = (
            "import os, sys; from gitlab_nightshift import cli;"
            "from gitlab_nightshift.host.sandbox.inside import landlock;"
            "landlock.abi = lambda: 0; sys.exit(cli.run(sys.argv[1:], os.environ))"
        )
        shop.python = shop.folder / "python"
        shop.python.write_text(f"#!/bin/sh\nshift 2; exec {sys.executable} -Ic '{code}' \"$@\"\n")
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
