"""Stages of the program (``sandbox/stage_process.py``) by a fork, which has all imports already.

A test about what a stage can see or access starts it as the program does, by ``real_start``. What a
fork shares with its parent, and an exec does not, is undone: descriptors, signals,
environment, caches that speak of the process itself.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, NoReturn

from gitlab_nightshift import sealed_entry
from gitlab_nightshift.sandbox import confinement, stage_process
from gitlab_nightshift.sandbox import process as processes
from gitlab_nightshift.sandbox.process_places import Places
from gitlab_nightshift.sandbox.process_table import Confined, ProcessRow
from gitlab_nightshift.sandbox.stage_process import Stream
from gitlab_nightshift.system import signals
from gitlab_nightshift.system.processes import become_subreaper

PLAIN_STAGE = ProcessRow("plain", "tests.support.plain_stage", (), Confined.NOT)
"""Runs the code that it is given, and gives nothing up."""
real_start = stage_process.start_stage
real_choose = confinement.choose


def fork_stage(
    row: ProcessRow,
    data: Mapping[str, Any],
    env: Mapping[str, str],
    descriptors: Collection[int] = (),
    streams: tuple[Stream, Stream, Stream] = (PIPE, PIPE, PIPE),
    prefix: Sequence[str] = (),
    places: Places = stage_process.NO_PLACES,
) -> Popen[bytes]:
    """The same by a fork, which gives nothing up."""
    assert not prefix, "a fork cannot be taken into other namespaces"
    pairs = [_open(number, kind) for number, kind in enumerate(streams)]
    parent = os.getpid()
    if (pid := os.fork()) == 0:
        own = [its for its, _ in pairs]
        _leave(lambda: _run(row.module, data, lambda: _become(own, env, descriptors, parent)))
    for number, (its, _) in enumerate(pairs):
        if its != number:
            os.close(its)
    return _known(pid, [ours for _, ours in pairs])


real_fork = fork_stage


def start_by_forks() -> None:
    """Start stages by a fork, from here on in this process. None can be taken into other
    namespaces, so nothing is confined."""
    stage_process.start_stage = fork_stage
    nothing = confinement.ConfinementChoice(
        confinement.ConfinementMode.NONE, confinement.NO_ISOLATION
    )
    confinement.choose = lambda *_, **__: nothing


def _run(module: str, data: Mapping[str, Any], become: Callable[[], None]) -> int:
    become()
    plain = json.loads(json.dumps({**data, "stage": module}))
    status: int = importlib.import_module(module).main(plain)
    return status


def _leave(run: Callable[[], int]) -> NoReturn:
    """End without what the parent does at its own exit: that would remove its folders."""
    status = 1
    try:
        status = run()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(status)


def _open(number: int, kind: Stream) -> tuple[int, int | None]:
    """A stream of a child: its descriptor, and our end of it."""
    if kind is None:
        return number, None
    if kind == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    reading, writing = os.pipe()
    return (reading, writing) if number == 0 else (writing, reading)


def _become(
    streams: Sequence[int], env: Mapping[str, str], kept: Collection[int], parent: int
) -> None:
    # The parent's garbage is not collected here: pytest would tell of it in the middle of anything,
    # by a traceback, whose ast.parse breaks one that is under way (CPython's gh-106905).
    gc.freeze()
    sys.unraisablehook = sys.__unraisablehook__
    warnings.simplefilter("ignore")
    os.setsid()
    for number, descriptor in enumerate(streams):
        if number != descriptor:
            os.dup2(descriptor, number)
    _close_others({0, 1, 2, *kept})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals._cancellation = signals._Cancellation()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    processes._starting, processes._running = threading.Lock(), set()  # the fork holds it
    become_subreaper.cache_clear()
    os.environ.clear()
    os.environ.update(env)
    os.chdir("/")
    sealed_entry.end_with_parent(parent)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )


def _close_others(kept: set[int]) -> None:
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # the one that listed them is closed
                os.close(descriptor)


def _known(pid: int, ends: Sequence[int | None]) -> Popen[bytes]:
    """A child as ``subprocess`` knows it."""
    stdin, stdout, stderr = (
        None if end is None else os.fdopen(end, mode)
        for end, mode in zip(ends, ("wb", "rb", "rb"), strict=True)
    )
    made: Popen[bytes] = Popen.__new__(Popen)
    made.__dict__.update(
        pid=pid,
        args=["stage"],
        returncode=None,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text_mode=False,
        encoding=None,
        errors=None,
        _child_created=True,
        _communication_started=False,
        _input=None,
        _sigint_wait_secs=0,
        _waitpid_lock=threading.Lock(),
    )
    return made
