"""Run all attacks once, on the machine that this runs on: ``python drive.py TASK``.

The task is JSON: ``root`` (a folder that everybody may enter), ``tier``, ``gateway`` (what of
:class:`Places` is the gateway's), ``socket`` (the gateway's own). Flags come by the environment, as
a job's secrets do. What came of each attack is printed as JSON.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gitlab_nightshift.errors import NightshiftError  # noqa: E402
from gitlab_nightshift.sandbox import uid_tier  # noqa: E402
from gitlab_nightshift.sandbox.launch import Sandbox, end_leftovers, prepare_launch  # noqa: E402
from gitlab_nightshift.sandbox.tier_choice import choose  # noqa: E402
from gitlab_nightshift.sandbox.tiers import Confinement, ServicePort, Tier  # noqa: E402
from tests.attacks import installed  # noqa: E402
from tests.attacks.attack import read_corpus  # noqa: E402
from tests.attacks.places import LONG_S, Places, state  # noqa: E402
from tests.attacks.scene import Flags, scene  # noqa: E402

HERE = Path(__file__).resolve().parent
PYTHON = next(p for p in ("/usr/local/bin/python3", "/usr/bin/python3") if Path(p).exists())
LONGEST_S = 400.0


def main(task: dict[str, Any]) -> None:
    os.setsid()
    root, flags = Path(task["root"]), Flags(os.environ["NIGHT_FLAG"].rpartition("-")[0])
    try:
        sandbox = choose(task["tier"], root)
    except NightshiftError as error:
        print(json.dumps({"missing": error.message}))
        return
    _furnish(root, sandbox)
    with scene(root, flags, task["gateway"]) as made:
        files = {**made.files, **installed.paths(task["installed"])}
        places = replace(made, arrives_s=waits_s(sandbox.tier), files=files)
        (root / "places.json").write_text(json.dumps(asdict(places)))
        try:
            refusals = _run(root, sandbox, places, Path(task["socket"]), task["names"])
            found = json.loads(_outcomes(root).read_bytes())
            reasons = _reasons(places) if sandbox.tier is Tier.NONE else {}
            shown = [one for one in found["attacks"] if one[0] not in reasons]
            verdicts = judged(in_the_end(places, sandbox.tier), flags, shown)
        finally:
            end_daemons(Path(places.scratch))
    rest = {"needed": found["needed"], "cannot": reasons, "refusals": refusals}
    print(json.dumps({"attacks": verdicts, **rest}))
    if sandbox.identity:
        uid_tier.release_user(sandbox.identity)


def _furnish(root: Path, sandbox: Sandbox) -> None:
    """A checkout and a scratch folder of the agent's, and the attacks to read."""
    for name in ("checkout", "scratch", "scratch/home", "scratch/tmp"):
        (root / name).mkdir()
        if sandbox.identity:
            os.chown(root / name, sandbox.identity.uid, sandbox.identity.gid)
    copy_corpus(root / "corpus")


def copy_corpus(root: Path) -> None:
    """Only what runs inside."""
    target = root / "tests" / "attacks"
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE / "machine", target / "machine", ignore=caches)
    for name in ("attack.py", "places.py", "races.py", "run.py"):
        shutil.copy(HERE / name, target)


def _outcomes(root: Path) -> Path:
    return root / "scratch" / "outcomes.json"


def _run(
    root: Path, sandbox: Sandbox, places: Places, socket: Path, wanted: list[str]
) -> list[str]:
    """Run the attacks to their end; returns what the monitor refused them."""
    runner = str(root / "corpus/tests/attacks/run.py")
    argv = [PYTHON, "-B", runner, str(root / "places.json"), str(_outcomes(root)), *wanted]
    if sandbox.tier is Tier.NONE:
        _run_bare(argv)
        return []
    writable = (root / "checkout", root / "scratch")
    services = (ServicePort(places.gateway, socket),)
    read_only = (root / "corpus", root / "places.json")
    confinement = Confinement(root / "checkout", writable, read_only, services)
    env = {"PATH": "/usr/bin:/bin", "HOME": f"{root}/scratch/home", "LANG": "C.UTF-8"}
    with prepare_launch(sandbox, argv, env, confinement) as launch:
        process = launch.start()
        try:
            _, err = process.communicate(timeout=LONGEST_S)
        finally:
            _kill(process)
            assert end_leftovers(sandbox)
        report = launch.read_report()
    assert report.ready, report.failed
    assert process.returncode == 0, err.decode()
    return list(report.refused)


def _run_bare(argv: list[str]) -> None:
    """Start it the careless way: with everything that this process has."""
    ours, theirs = socket.socketpair()
    ours.sendall(os.environ["NIGHT_FLAG"].encode())
    with ours, theirs:
        subprocess.run(argv, stdin=theirs.fileno(), close_fds=False, timeout=LONGEST_S, check=True)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


# --- what came of it ------------------------------------------------------------------------------


def waits_s(tier: str) -> float:
    """Seconds that an attack waits for its victim: where nothing stops it, until that comes."""
    return LONG_S if tier == Tier.NONE else 0.3


def in_the_end(places: Places, tier: str) -> Places:
    """The places as the judge sees them: in a tier nothing more arrives, and everything ends."""
    open_ = tier == Tier.NONE
    return replace(places, arrives_s=LONG_S * open_, ends_s=LONG_S * (not open_))


def judged(
    places: Places, flags: Flags, outcomes: list[tuple[str, str, str]]
) -> dict[str, tuple[str, str]]:
    """``through``, ``stopped`` or ``broken``, and how, by name; all wait together once."""
    begun, found = time.monotonic(), {}
    for name, kind, text in outcomes:
        gone_s = time.monotonic() - begun
        arrives_s, ends_s = (max(0, s - gone_s) for s in (places.arrives_s, places.ends_s))
        there = replace(places, arrives_s=arrives_s, ends_s=ends_s)
        found[name] = _verdict(there, flags, name, kind, text)
    return found


def _verdict(places: Places, flags: Flags, name: str, kind: str, text: str) -> tuple[str, str]:
    """What counts is what shows out here: a flag of this scene, or what was done to it."""
    attack = read_corpus()[name]
    if kind == "broken":
        return kind, text
    if attack.seen:
        through = attack.seen(places)
    elif attack.a_right:
        through = kind == "loot"
    else:
        through = kind == "loot" and flags.word in text
    return ("through" if through else "stopped"), text


def _reasons(places: Places) -> dict[str, str]:
    """For attacks that need something of the machine: why they cannot be shown here."""
    found = {}
    for name, attack in read_corpus().items():
        if attack.needs and (why := _asked(attack.needs, places)):
            found[name] = why
    return found


def _asked(needs: Any, places: Places) -> str:
    """In a process of its own; what it raises is the reason, "" where nothing is missing."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        why = ""
        try:
            needs(places)
        except Exception as error:
            why = str(error) or repr(error)
        os.write(writing, why.encode() or b"-")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        why = pipe.read().decode()
    os.waitpid(pid, 0)
    return "" if why == "-" else why or "it ends the process"


def end_daemons(scratch: Path) -> None:
    """What the control leaves behind."""
    for lock in scratch.glob("*.lock"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(lock.read_bytes())
            holds = any(e.resolve() == lock for e in Path(f"/proc/{pid}/fd").iterdir())
            if holds and state(pid) != "Z":
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_bytes()))
