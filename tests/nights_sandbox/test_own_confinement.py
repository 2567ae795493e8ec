"""Whole nights whose work is confined, by what the proof's row says that it has tried itself.

What a confined process can access, with a control, is in ``sandbox/test_confinement.py``, and in
whole nights in ``separation/test_planted.py``: as root and as a plain user, each also as in Docker.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox import broker_client
from gitlab_nightshift.sandbox.inside.monitor import descends
from gitlab_nightshift.sandbox.tiers import WORK_READERS
from tests.nights_sandbox.test_plain_user import PLAIN, give_away, open_folder, open_to_all, python
from tests.support.sandboxes import (
    MORE,
    NEEDS_ROOT,
    ONE_OPERATOR,
    read_row,
    scripted,
    tier_or_skip,
    with_agent,
)
from tests.support.world import PROVING, World, ended, git, wait_in, world

__all__ = ["open_folder", "python"]
TOKEN = "glpat-InTheConfiguration"

pytestmark = NEEDS_ROOT


@pytest.fixture
def shop(open_folder: Path) -> Iterator[World]:
    """Its real configuration has a token, and so has its home."""
    with world(open_folder, files=ONE_OPERATOR, config=PROVING) as made:
        git(made.checkout, "config", "http.extraHeader", f"PRIVATE-TOKEN: {TOKEN}")
        Path(made.env["HOME"], ".netrc").write_text(f"machine a password {TOKEN}\n")
        made.look()
        made.python = Path(sys.executable)
        yield made


def as_in(shop: World, python: Path, place: str) -> None:
    """Let its command run in one of the four places."""
    if "root's tree" in place:
        open_to_all(shop, python)
        shop.patch, shop.python, shop.user = "", python, PLAIN
    elif "plain" in place:
        give_away(shop, python, "builds", "home", "tmp", "agent")
        shop.python = python
        shop.user = PLAIN


@pytest.mark.parametrize(
    ("place", "isolation", "way"),
    [("plain, in root's tree", "auto", "namespaces"), ("root", "uid", "landlock")],
)
def test_a_night_is_confined(
    shop: World, python: Path, place: str, isolation: str, way: str
) -> None:
    tier_or_skip("namespaces")
    as_in(shop, python, place)
    implement = f"git status --porcelain && git diff HEAD && printf '{MORE}' >> test_shop.py"
    path = with_agent(shop, "scripted", scripted(f"{implement} || exit 3"))
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION=isolation, PATH=path)

    assert (done.exit_status, done.stderr) == (0, ""), done.log
    assert shop.result["outcome"] == "MR_CREATED", done.log
    row = read_row(shop, WORK_READERS)
    assert row["attempts"] > 10
    assert (row["state"], row["how"][: len(way)]) == ("held", way)
    assert TOKEN not in str(shop.products())
    tier = "namespaces" if isolation == "auto" else isolation
    assert shop.result["isolation"].startswith(f"{tier} (")
    assert ("a new owner or time" in done.log) == ("root's tree" in place)
    shop.assert_restored()


def test_the_doctor_tries_the_same(shop: World, python: Path) -> None:
    tier_or_skip("namespaces")
    as_in(shop, python, "plain")
    path = with_agent(shop, "scripted", scripted("true"))
    done = shop.nightshift("doctor", "--boundary", NIGHTSHIFT_ISOLATION="auto", PATH=path)
    [line] = [line for line in done.log.splitlines() if line.startswith(WORK_READERS.title)]
    assert line.split() == [*WORK_READERS.title.split(), "held:", "namespaces"]
    assert done.exit_status == 0
    shop.assert_restored()


def hanging(shop: World) -> Any:
    """A night whose agent has begun and does not end."""
    stuck = "rm -f shop.py; echo x > planted; exec sleep 600"
    path = with_agent(shop, "stuck", f"#!/bin/sh\n{stuck}\n")
    night = shop.start("run", NIGHTSHIFT_ISOLATION=tier_or_skip("namespaces"), PATH=path)
    wait_in(night, (shop.checkout / "planted").exists, "the agent at work")
    return night


def test_a_signal_reaches_work_in_its_namespaces(shop: World) -> None:
    night = hanging(shop)
    night.send_signal(signal.SIGTERM)
    done = ended(night)
    assert shop.result["error_code"] == "E_TERMINATED", done.log
    assert "stopped by a signal" in done.log
    shop.assert_restored()


def test_work_that_is_killed_leaves_nothing(shop: World) -> None:
    """The supervisor is killed with all that is around it, as the kernel would do."""
    night = hanging(shop)
    [command] = Path(f"/proc/{night.pid}/task/{night.pid}/children").read_text().split()
    os.kill(int(command), signal.SIGKILL)
    ended(night)
    shop.assert_restored()


SPOILED = (
    "chmod 700 shop.py; touch -d @1 test_shop.py; chmod 711 .; rm run.sh; mkdir -m 500 new;"
    " mkdir -m 1777 shared; touch shared/own"
)


@pytest.mark.parametrize(
    ("place", "isolation"), [("root", "uid"), ("root", "landlock"), ("plain", "landlock")]
)
def test_what_an_attempt_did_to_modes_and_times_is_undone_before_the_next(
    shop: World, python: Path, place: str, isolation: str
) -> None:
    """By work, whose broker does it for it."""
    as_in(shop, python, place)
    names = " ".join(sorted(path.name for path in shop.checkout.iterdir() if path.name != ".git"))
    look = f"stat -c '%a %.9Y %n' {names}; stat -c %a .; ls"
    before = shop.checkout.parent / "before"
    before.write_bytes(subprocess.check_output(["/bin/sh", "-c", look], cwd=shop.checkout))
    found = before.read_text()
    before.unlink()
    implement = (
        f"case $HOME in *-1/home) {SPOILED}; exit 3 ;; esac;"
        f" test \"$({look} 2>&1)\" = '{found.strip()}' || exit 4; printf '{MORE}' >> test_shop.py"
    )
    path = with_agent(shop, "scripted", scripted(implement))
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION=isolation, PATH=path)
    assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
    assert read_row(shop, WORK_READERS)["how"].startswith("landlock")
    assert [each["status"] for each in shop.result["beads"][1:3]] == ["crashed", "ok"]
    shop.assert_restored()


def find_broker(night: int) -> int:
    """That of a night's work."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(command.parent.name)
        with contextlib.suppress(OSError):
            if b"/launcher.py\0broker_service\0" in command.read_bytes() and descends(pid, night):
                return pid
    raise AssertionError("no broker")


@pytest.mark.parametrize("left", ["rm shop.py; chmod 700 run.sh", ""])
def test_a_night_whose_broker_is_killed_says_so_and_puts_the_checkout_back(
    shop: World, left: str
) -> None:
    """What it no longer does nobody does: no mode is changed back, no other agent is started."""
    implement = f"{left or ':'}; touch planted; until test -e go; do sleep 0.05; done"
    path = with_agent(shop, "scripted", scripted(implement))
    night = shop.start("run", NIGHTSHIFT_ISOLATION="landlock", PATH=path)
    wait_in(night, (shop.checkout / "planted").exists, "the agent at work")
    os.kill(find_broker(night.pid), signal.SIGKILL)
    (shop.checkout / "go").touch()
    done = ended(night)
    told = (shop.result["outcome"], shop.result["error_code"], shop.result["reason"])
    assert told == ("FAILED", "E_TERMINATED", broker_client.BROKER_ENDED), done.log
    assert (done.exit_status, shop.written) == (143, [])
    shop.assert_restored()
