"""Runs the corpus in one place and one tier, and remembers what came of it."""

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.sandbox.tiers import Tier
from tests.attacks import installed
from tests.attacks.careless import careful, careless
from tests.attacks.places import MARK
from tests.sandbox.test_proof import DOCKER, PLACES, PLAIN_USER, public_python
from tests.sandbox.tools import open_folder

HERE = Path(__file__).parent
JOB = 'unset JOB_FLAG; "$@"; exit $?'
"""The job's shell: what it was started with stays readable in its environment."""
Judged = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Results:
    """``attacks`` is what came of each; ``cannot`` why some cannot be shown here; ``needed`` what
    an agent needs and had not; ``missing`` why there is no such tier."""

    attacks: Judged
    cannot: dict[str, str]
    needed: str
    missing: str


def why_not(place: str) -> str:
    """Why there is no such place here, "" where there is."""
    if place == "here":
        return ""
    if os.geteuid() != 0:
        return "needs root"
    return "" if public_python() else "no Python that another user may run"


def results(place: str, tier: Tier, shared: Path) -> Results:
    """Run all of it."""
    with undisturbed(tier, shared):
        found = json.loads(_driven(place, tier))
    assert "trouble" not in found, found["trouble"]
    given = (found.get("attacks", {}), found.get("cannot", {}))
    return Results(*given, found.get("needed", ""), found.get("missing", ""))


@contextmanager
def undisturbed(tier: Tier, shared: Path) -> Iterator[None]:
    """Where nothing stops an attack it can hit what other runs have planted: it waits for them."""
    with (shared / "attacks-are-running").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if tier is Tier.NONE else fcntl.LOCK_SH)
        yield


def _driven(place: str, tier: Tier, *names: str) -> str:
    word = f"{MARK}-{secrets.token_hex(8)}"
    with (
        open_folder() as root,
        _gateway(tier, f"{word}-endpoint", root) as (way, socket),
        _mount_points() as name,
    ):
        task = {"root": str(root / "job"), "tier": tier, "gateway": way, "socket": str(socket)}
        task["installed"] = name
        (root / "job").mkdir(mode=0o755)
        (root / "task.json").write_text(json.dumps({**task, "names": names}))
        for path in (root / "job", socket.parent, socket) if "user" in place else ():
            os.chown(path, PLAIN_USER, PLAIN_USER)
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        flags = {"NIGHT_FLAG": f"{word}-night", "JOB_FLAG": f"{word}-job"}
        done = subprocess.run(
            _command(place, name, root / "task.json"),
            env={**env, **flags},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            start_new_session=True,
        )
        return done.stdout if done.returncode == 0 else json.dumps({"trouble": done.stderr})


@contextmanager
def _gateway(tier: Tier, flag: str, root: Path) -> Iterator[tuple[dict[str, object], Path]]:
    folder = root / "gate"
    folder.mkdir(mode=0o700)
    path = folder / "socket"
    with careless(flag) if tier is Tier.NONE else careful(flag, path) as way:
        yield way.places, path


@contextmanager
def _mount_points() -> Iterator[str]:
    """The name of folders for what is installed for this run alone, "" where there is no root."""
    name = f"nightshift-attack-{secrets.token_hex(4)}" if os.geteuid() == 0 else ""
    folders = installed.tops(name) if name else ()
    for folder in folders:
        folder.mkdir(parents=True)
    try:
        yield name
    finally:
        for folder in folders:
            folder.rmdir()


def _command(place: str, name: str, task: Path) -> list[str]:
    python = sys.executable if place == "here" else public_python()
    assert python
    words = PLACES[place]
    words = [python, *words] if words[: len(DOCKER)] == DOCKER else words
    owner = str(PLAIN_USER if "user" in place else 0)
    first = [sys.executable, "-B", str(HERE / "installed.py"), name, owner] if name else []
    drive = [python, "-B", str(HERE / "drive.py"), str(task)]
    return [*first, *words, "sh", "-c", JOB, "sh", *drive]


if __name__ == "__main__":  # python -m tests.attacks.harness TIER [NAME...]
    outcomes = json.loads(_driven("here", Tier(sys.argv[1]), *sys.argv[2:]))
    width = shutil.get_terminal_size().columns
    for one, (kind, how) in sorted(outcomes["attacks"].items()):
        print(f"{one:<28} {kind:<8} {how}"[:width])
    for one, why in outcomes["cannot"].items():
        print(f"{one:<28} cannot be shown here: {why}"[:width])
    print(*outcomes["refusals"], sep="\n")
