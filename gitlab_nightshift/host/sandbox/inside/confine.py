"""The launcher's work: read the spec, give everything up, become the program.

There is no way on with less: a step that fails ends the process (:mod:`.steps`).
"""

from __future__ import annotations

import _json
import _socket
import os

from .descriptors import check_standard, close_all_but
from .forwarder import start
from .kernel import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_SUBREAPER, prctl, signals
from .landlock import Paths, restrict
from .privileges import (
    become,
    drop_capabilities,
    lock_root_out,
    no_core_dumps,
    no_new_privileges,
    own_keyring,
)
from .seccomp import Form, install
from .steps import Steps

TYPE_CHECKING = False  # not imported: typing costs 6 ms
if TYPE_CHECKING:
    from typing import NoReturn

CAN_TRUNCATE, CAN_SCOPE = 3, 6
"""The Landlock ABIs from which ``truncate``, and signals and abstract sockets, are confined."""


class Spec:
    """What the parent asks for; see ``host/sandbox/launch.py``, which writes it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    act: dict[str, object] | None
    parent: int
    uid: int | None
    gid: int | None
    landlock: int
    notify: bool
    own_network: bool
    readable: list[str]
    listable: list[str]
    writable: list[str]
    devices: list[str]
    ports: list[int]
    gates: list[tuple[int, str]]

    def __init__(self, fd: int) -> None:
        """Read JSON to the end of a descriptor; the json module costs 7 ms, its core nothing."""
        parts = []
        while part := os.read(fd, 1 << 20):
            parts.append(part)
        os.close(fd)
        scan = _json.make_scanner(_Plain())  # type: ignore[arg-type]
        value, _ = scan(b"".join(parts).decode(), 0)
        for name in self.__annotations__:
            setattr(self, name, value[name])


class _Plain:
    strict, memo = True, dict[str, str]()
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def main(spec_fd: int, status: int) -> NoReturn:
    """Confine this process as the spec says, then run its program."""
    steps = Steps(status)
    with steps.step("spec"):
        spec = Spec(spec_fd)
        os.set_inheritable(status, False)
    with steps.step("descriptors"):
        check_standard()
        close_all_but(status)
    with steps.step("limits"):
        no_core_dumps()
    channel = None if spec.own_network else _kept(spec, steps, status)
    act = _loaded(spec)
    _give_up(spec, steps)
    _restrict(spec, steps, status, channel)
    _run(spec, steps, act)


def _kept(spec: Spec, steps: Steps, status: int) -> _socket.socket | None:
    """Split in two: this returns in the child; its parent is the keeper."""
    with steps.step("session"):
        if os.getsid(0) != os.getpid():
            os.setsid()
    with steps.step("keeper"):
        prctl(PR_SET_SUBREAPER, 1)
        ours, theirs = _socket.socketpair()
        keeper_pid, program = os.getpid(), os.fork()
    if program:
        theirs.close()
        _keep(spec, steps, status, program, ours if spec.notify else None)
    ours.close()
    spec.parent = keeper_pid
    return theirs if spec.notify else None


def _keep(
    spec: Spec, steps: Steps, status: int, program: int, channel: _socket.socket | None
) -> NoReturn:
    with steps.step("keeper"):
        from . import keeper  # only in this half, while the other one goes on

        keeper.settle()
        if spec.uid is not None and spec.gid is not None:
            become(spec.uid, spec.gid)
        keeper.unprivileged(spec.uid is not None)
        if os.getppid() != spec.parent:
            raise ProcessLookupError("the night shift is gone")
        keeper.watch(program, channel, status, spec.ports, spec.writable)


def _loaded(spec: Spec) -> object:
    """Import what acts instead of a program while files can still be read."""
    if spec.act is None:
        return None
    return __import__(f"inside.{spec.act['module']}", fromlist=["main"])


def _give_up(spec: Spec, steps: Steps) -> None:
    with steps.step("privileges"):
        lock_root_out()
    with steps.step("user"):
        if spec.uid is not None and spec.gid is not None:
            become(spec.uid, spec.gid)
    with steps.step("privileges"):
        drop_capabilities()
        no_new_privileges()
    with steps.step("parent"):
        if not spec.own_network:
            prctl(PR_SET_PDEATHSIG, signals.SIGKILL)
            if os.getppid() != spec.parent:
                raise ProcessLookupError("the keeper is gone")
    with steps.step("keyring"):
        own_keyring()
    with steps.step("folder"):
        os.chdir(spec.cwd)


def _restrict(spec: Spec, steps: Steps, status: int, channel: _socket.socket | None) -> None:
    with steps.step("files"):
        if spec.landlock:
            # With a keeper no connect is ever made by the tree itself: none is allowed to be.
            ports = None if spec.own_network else [] if spec.notify else spec.ports
            paths = Paths(spec.readable, spec.listable, spec.writable, spec.devices)
            restrict(spec.landlock, paths, ports)
    with steps.step("calls"):
        form = Form(
            notify=spec.notify,
            own_network=spec.own_network,
            guard_signals=not spec.own_network and spec.landlock < CAN_SCOPE,
            guard_length=not spec.own_network and spec.landlock < CAN_TRUNCATE,
        )
        listener = install(form)
        if listener is not None and channel is not None:
            rights = listener.to_bytes(4, "little")
            channel.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
            channel.close()
            os.close(listener)
    with steps.step("gates"):
        if spec.own_network and spec.gates:
            start(spec.gates, status)


def _run(spec: Spec, steps: Steps, act: object) -> NoReturn:
    with steps.step("program"):
        for number in (signals.SIGPIPE, signals.SIGXFSZ, signals.SIGINT, signals.SIGTERM):
            signals.signal(number, signals.SIG_DFL)
        signals.pthread_sigmask(signals.SIG_SETMASK, [])
        prctl(PR_SET_DUMPABLE, 1)  # as exec would: its own keeper has to look into it
        steps.ready()
        if act is not None and spec.act is not None:
            act.main(spec.act)  # type: ignore[attr-defined]
            os._exit(0)
        _execute(spec.argv, spec.env)


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Look the program up and become it; ``os.execvpe`` imports what cannot be read any more."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606
    found: OSError = FileNotFoundError(2, f"{argv[0]} is not on PATH")
    for folder in env.get("PATH", "").split(":"):
        try:
            os.execve(f"{folder}/{argv[0]}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            found = error
    raise found
