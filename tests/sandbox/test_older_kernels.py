"""Guarantees on older kernels, simulated with fewer of this kernel's features."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gitlab_nightshift.sandbox.probe_run import open_greeter, open_tcp_listener
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import judge_guarantees, prove
from gitlab_nightshift.sandbox.tiers import FILE_MODES, ServicePort
from tests.sandbox.tools import Room, with_features

OLD = "import socket, os, sys, signal, errno\n"


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the same user that has nothing to do with the tree."""
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("landlock", [1, 2, 3, 4, 5, 6])
def test_the_proof_holds_with_every_landlock_abi(landlock_room: Room, landlock: int) -> None:
    room = with_features(landlock_room, landlock=landlock, notify=True)
    proof = prove(room.sandbox, room.confinement, ProbeTargets())
    assert (proof.failure, proof.holes) == ("", ())
    assert {s.state for s in judge_guarantees(room.sandbox.guarantees, proof.findings)} == {"held"}
    assert [f.name for f in proof.findings if f.open] == []


@pytest.mark.parametrize("landlock", [1, 3, 4, 6])
def test_without_a_monitor_the_network_guarantee_is_partial(
    landlock_room: Room, landlock: int
) -> None:
    room = with_features(landlock_room, landlock=landlock, notify=False)
    proof = prove(room.sandbox, room.confinement, ProbeTargets())
    assert (proof.failure, proof.holes) == ("", ())
    assert not room.sandbox.guarantees.network.held
    assert len(proof.rows) >= 10
    assert [f.name for f in proof.findings if f.row is FILE_MODES and not f.open] == []
    open_rows = {f.row.guarantee for f in proof.findings if f.open and f.row is not FILE_MODES}
    assert open_rows <= {"network", "lifetime"}
    assert ("lifetime" in open_rows) == (landlock < 6)


@pytest.mark.parametrize("landlock", [3, 6])
def test_without_a_monitor_only_the_gateways_port(landlock_room: Room, landlock: int) -> None:
    with open_tcp_listener() as service, open_tcp_listener() as other, open_greeter(service, other):
        ports = service.getsockname()[1], other.getsockname()[1]
        room = with_features(landlock_room, landlock=landlock, notify=False)
        room = room.using(services=[ServicePort(ports[0], room.root)])
        source = "for port in %d, %d: print(socket.socket().connect_ex(('127.0.0.1', port)))"
        done = room.python(OLD + source % ports)
    assert done.stdout.split() == ["0", "13" if landlock >= 4 else "0"]


def test_without_a_monitor_there_are_no_unix_sockets(landlock_room: Room) -> None:
    room = with_features(landlock_room, landlock=6, notify=False)
    source = (
        "socket.socketpair()\ntry: socket.socket(socket.AF_UNIX)\nexcept OSError as e: print(e)"
    )
    assert "not supported" in room.python(OLD + source).stdout


def test_signals_stay_in_the_tree(
    landlock_room: Room, bystander: "subprocess.Popen[bytes]"
) -> None:
    """Landlock confines them from ABI 6 on; before, the monitor checks each one."""
    room = with_features(landlock_room, landlock=5, notify=True)
    source = f"""
import ctypes, subprocess
def shown(pid, call=os.kill):
    try: call(pid, 0); print('sent', end=' ')
    except OSError as e: print(errno.errorcode[e.errno], end=' ')
shown({bystander.pid}); shown({os.getpid()}); shown(os.getppid()); shown(-1); shown(-{os.getpgrp()})
child = subprocess.Popen(['sleep', '300'], start_new_session=True)
shown(child.pid); shown(os.getpid()); shown(0); shown(child.pid, os.killpg)
os.kill(child.pid, 15); print(child.wait())
"""
    done = room.python(OLD + source)
    assert done.stderr == ""
    assert done.stdout.split() == ["EPERM"] * 5 + ["sent"] * 4 + [str(-signal.SIGTERM)]
    assert bystander.poll() is None
    assert f"signal to process {bystander.pid}" in done.report.refused


def test_a_signal_by_owner_of_a_descriptor(
    landlock_room: Room, bystander: "subprocess.Popen[bytes]"
) -> None:
    room = with_features(landlock_room, landlock=5, notify=True)
    source = f"""
import fcntl
r, w = os.pipe()
try: fcntl.fcntl(r, fcntl.F_SETOWN, {bystander.pid}); print('set')
except OSError as e: print(e.errno)
"""
    assert room.python(OLD + source).stdout == "1\n"


def test_files_cannot_be_truncated(landlock_room: Room) -> None:
    """Landlock checks ``truncate`` from ABI 3 on."""
    victim = landlock_room.root / "victim"
    victim.write_text("text")
    victim.chmod(0o666)
    room = with_features(landlock_room, landlock=2, notify=True)
    source = f"""
try: os.truncate({str(victim)!r}, 0)
except OSError as e: print(e.errno)
open('mine', 'w').write('text'); os.ftruncate(os.open('mine', os.O_RDWR), 1)
print(os.path.getsize('mine'))
"""
    done = room.python(OLD + source)
    assert (done.stdout, done.stderr) == ("1\n1\n", "")
    assert victim.read_text() == "text"


def test_a_tree_without_a_monitor_ends_with_its_program(landlock_room: Room) -> None:
    room = with_features(landlock_room, landlock=6, notify=False)
    assert room.shell("(setsid sleep 300 &); echo x").stdout == "x\n"
