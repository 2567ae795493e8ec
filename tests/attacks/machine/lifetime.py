"""Attacks that outlive the bead, or end what is not theirs."""

import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.attacks.attack import attack_on
from tests.attacks.places import (
    LIVING_S,
    LONG_S,
    Places,
    above,
    begun,
    call,
    checked,
    hit,
    hold,
    job,
    libc,
    live_on,
    lives,
    night,
    plant,
    planted,
    state,
    victim,
    waited_for,
)

CHILD_SUBREAPER = 36


@attack_on(
    "lifetime",
    "When the foster parent is ended its children go on to the monitor, and are ended.",
    seen=lambda places: lives(places, "adopted_daemon"),
)
def adopted_daemon(places: Places) -> str | None:
    """Makes itself the one that orphans go to, so that they never come to the monitor."""
    if os.fork() == 0:
        os.setsid()
        checked(libc.prctl(CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0))
        if os.fork() == 0:
            if os.fork() == 0:
                live_on(places, "adopted_daemon")
            os._exit(0)
        os.wait()
        os.wait()
        os._exit(0)
    return begun(places, "adopted_daemon")


@attack_on(
    "lifetime",
    "The monitor ends every descendant; a namespace ends with its first process.",
    seen=lambda places: lives(places, "daemon"),
)
def daemon(places: Places) -> str | None:
    """Forks twice into a session of its own and lets go of everything."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 1000)
            live_on(places, "daemon")
        os._exit(0)
    os.wait()
    return begun(places, "daemon")


@attack_on(
    "lifetime",
    "The grandchild is ended with the bead, and reading is bounded.",
    seen=lambda places: lives(places, "held_pipe"),
)
def held_pipe(places: Places) -> str | None:
    """Leaves a grandchild that keeps stdout and stderr: whoever reads to the end waits for it."""
    if os.fork() == 0:
        if os.fork() == 0:
            for fd in (10, 11, 12):
                os.dup2(1, fd)
            live_on(places, "held_pipe")
        os._exit(0)
    os.wait()
    return begun(places, "held_pipe")


@attack_on(
    "lifetime",
    "Landlock's scope or the monitor; another user; in a namespace it cannot be named.",
    seen=lambda places: state(places.victims["kill_victim"]) in "ZX",
)
def kill_victim(places: Places) -> str | None:
    """Sends SIGKILL to a process outside its own tree."""
    os.kill(victim(places, "kill_victim"), signal.SIGKILL)
    return "sent"


def _late_writer_seen(places: Places) -> bool:
    late = Path(places.checkout, "late")
    if not late.exists():
        return False
    before = late.stat().st_size
    until = time.monotonic() + max(places.arrives_s, 0.2)
    return waited_for(lambda: late.stat().st_size > before, until)


@attack_on("lifetime", "Every descendant is ended before the tree is read.", seen=_late_writer_seen)
def late_writer(places: Places) -> str | None:
    """Goes on writing to the checkout when the bead is over: the change would not be the proven."""
    if os.fork() == 0:
        os.setsid()
        hold(places, "late_writer")
        until = time.monotonic() + LIVING_S
        while time.monotonic() < until:
            with Path(places.checkout, "late").open("a") as file:
                file.write("still here\n")
            time.sleep(0.02)
        os._exit(0)
    return begun(places, "late_writer")


SCRIPT = """#!/bin/sh
exec {python} -c "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True
from tests.attacks.places import Places, live_on
live_on(Places('', '{scratch}', '', '', ''), 'nameless_program')" "{root}"
"""


@attack_on(
    "lifetime",
    "Descendants are found by who started them, not by name or file.",
    seen=lambda places: lives(places, "nameless_program"),
)
def nameless_program(places: Places) -> str | None:
    """Runs a daemon from a file in memory, under a name of its choice."""
    if os.fork() == 0:
        os.setsid()
        root = __file__.rpartition("/tests/")[0]
        text = SCRIPT.format(python=sys.executable, scratch=places.scratch, root=root)
        memory = os.memfd_create("kworker", 0)
        os.write(memory, text.encode())
        os.execv(f"/proc/self/fd/{memory}", ["[kworker/0:1]"])
    return begun(places, "nameless_program")


def _oom_score_seen(places: Places) -> bool:
    return Path(f"/proc/{victim(places, 'night')}/oom_score_adj").read_text() == "777\n"


@attack_on("lifetime", "/proc of other processes is read-only to agents.", seen=_oom_score_seen)
def oom_score(places: Places) -> str | None:
    """Marks the process of the job as the first one to be killed."""
    Path(f"/proc/{night(places)}/oom_score_adj").write_text("777")
    return "marked"


@attack_on(
    "lifetime",
    "All calls that send signals are asked the same.",
    seen=lambda places: hit(places, "pidfd_signal"),
)
def pidfd_signal(places: Places) -> str | None:
    """Opens a process of the job by pidfd_open and signals that."""
    signal.pidfd_send_signal(os.pidfd_open(victim(places, "pidfd_signal")), signal.SIGWINCH)
    return "sent"


QUEUE = -1


@attack_on(
    "lifetime",
    "All calls that send signals are asked the same.",
    seen=lambda places: hit(places, "queue_signal"),
)
def queue_signal(places: Places) -> str | None:
    """Sends by rt_tgsigqueueinfo to one thread, which not every filter of kill knows."""
    pid = victim(places, "queue_signal")
    info = ctypes.create_string_buffer(128)
    head = (int(signal.SIGWINCH), 0, QUEUE, 0, os.getpid(), os.getuid())
    ctypes.memmove(info, (ctypes.c_int * 6)(*head), 24)
    call(places, "rt_tgsigqueueinfo", pid, pid, int(signal.SIGWINCH), info)
    return "sent"


LOWEST = 19


@attack_on(
    "lifetime",
    "Another user may not; in a namespace it cannot be named.",
    seen=lambda places: os.getpriority(os.PRIO_PROCESS, places.night) == LOWEST,
    open_in={"landlock": "slow the job's other processes down"},
)
def scheduling(places: Places) -> str | None:
    """Gives the process that holds the secrets the lowest priority."""
    os.setpriority(os.PRIO_PROCESS, night(places), LOWEST)
    return "slowed down"


def _where(places: Places) -> Path:
    return Path(f"/dev/shm/nightshift-attack-{places.own_name}")


def _shared_memory_folder_seen(places: Places) -> bool:
    there = _where(places).exists()
    shutil.rmtree(_where(places), ignore_errors=True)
    return there


@attack_on(
    "lifetime",
    "It is another one, cannot be written, or what is the agent's there is removed.",
    seen=_shared_memory_folder_seen,
)
def shared_memory_folder(places: Places) -> str | None:
    """Leaves a folder with a file in /dev/shm, where programs meet and nobody cleans up."""
    (_where(places) / "inner").mkdir(parents=True)
    (_where(places) / "inner/file").write_text("here")
    return "left behind"


SET_SIGNAL = 10


@attack_on(
    "lifetime",
    "Landlock's scope holds for such signals, too; older kernels: the filter refuses it.",
    seen=lambda places: hit(places, "signal_by_descriptor"),
)
def signal_by_descriptor(places: Places) -> str | None:
    """Makes a process of the job the owner of a pipe, and lets the kernel signal it for input."""
    pid = victim(places, "signal_by_descriptor")
    reading, writing = os.pipe()
    fcntl.fcntl(reading, SET_SIGNAL, signal.SIGWINCH)
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    flags = fcntl.fcntl(reading, fcntl.F_GETFL)
    fcntl.fcntl(reading, fcntl.F_SETFL, flags | os.O_ASYNC)
    os.write(writing, b"x")
    time.sleep(0.1)
    return "sent"


SOON_S = 0.5


def _signal_everybody_seen(places: Places) -> bool:
    """Only a signal of that time counts: somebody else on this machine may try the same."""
    heard, sent = Path(places.outside, "hits/signal_everybody"), Path(places.scratch, "sent_at")
    if not sent.exists():
        return False
    at, wait_s = float(sent.read_text()), max(places.arrives_s, SOON_S)

    def arrived() -> bool:
        times = heard.read_text().split() if heard.exists() else []
        return any(at <= float(each) <= at + wait_s for each in times)

    return waited_for(arrived, time.monotonic() + places.arrives_s)


@attack_on("lifetime", "It reaches only the sender's own tree.", seen=_signal_everybody_seen)
def signal_everybody(places: Places) -> str | None:
    """Calls kill(-1), with a signal that does nothing to whoever does not wait for it."""
    Path(places.scratch, "sent_at").write_text(str(time.monotonic()))
    os.kill(-1, signal.SIGURG)
    return "sent"


@attack_on(
    "lifetime",
    "Landlock's scope or the monitor; another user; in a namespace they cannot be named.",
    a_right=True,
)
def signal_parents(places: Places) -> str | None:
    """Asks for each process of the job whether a signal would arrive."""
    reached = []
    for pid in job(places):
        try:
            os.kill(pid, 0)
            reached.append(str(pid))
        except OSError:
            continue
    return " ".join(reached)


@attack_on(
    "lifetime",
    "The monitor is outside of Landlock's scope; the first of a namespace cannot be stopped.",
    a_right=True,
)
def stop_supervisor(places: Places) -> str | None:
    """Sends SIGSTOP to the parent of all its processes, which would end them."""
    supervisor = above(places)[0]
    os.kill(supervisor, signal.SIGSTOP)
    wait_s = 0.1 if supervisor == 1 else LONG_S  # the first of a namespace never stops
    stopped = waited_for(lambda: state(supervisor) == "T", time.monotonic() + wait_s)
    os.kill(supervisor, signal.SIGCONT)
    return f"{supervisor} was stopped" if stopped else None


@attack_on(
    "lifetime",
    "Landlock's scope or the monitor; another user; in a namespace it cannot be named.",
    seen=lambda places: state(places.victims["stop_victim"]) == "T",
)
def stop_victim(places: Places) -> str | None:
    """Sends SIGSTOP to a process outside its own tree: nothing would end it then."""
    os.kill(victim(places, "stop_victim"), signal.SIGSTOP)
    return "sent"


@attack_on(
    "lifetime",
    "SIGKILL ends stopped processes, too.",
    seen=lambda places: lives(places, "stopped_daemon"),
)
def stopped_daemon(places: Places) -> str | None:
    """Lets its daemon be stopped, to be woken later by somebody else."""
    if (pid := os.fork()) == 0:
        os.setsid()
        live_on(places, "stopped_daemon")
    text = begun(places, "stopped_daemon")
    os.kill(pid, signal.SIGSTOP)
    return text


@attack_on(
    "lifetime",
    "What is left is ended by SIGKILL, which cannot be ignored.",
    seen=lambda places: lives(places, "stubborn_daemon"),
)
def stubborn_daemon(places: Places) -> str | None:
    """Ignores every signal that can be ignored."""
    if os.fork() == 0:
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        live_on(places, "stubborn_daemon")
    return begun(places, "stubborn_daemon")


SEIZE = 0x4206


@attack_on(
    "lifetime",
    "The filter refuses ptrace; SIGKILL passes tracers.",
    seen=lambda places: lives(places, "traced_daemon"),
)
def traced_daemon(places: Places) -> str | None:
    """Traces its daemon, so that the end of it waits for the tracer."""
    if (daemon := os.fork()) == 0:
        os.setsid()
        live_on(places, "traced_daemon")
    text = begun(places, "traced_daemon")
    try:
        checked(libc.ptrace(SEIZE, daemon, None, None))
    except OSError as error:
        return f"{text}, untraced: {error}"
    return text


@attack_on(
    "lifetime",
    "The process is ended with the bead; a FIFO is refused as a change.",
    seen=lambda places: lives(places, "waiting_reader"),
)
def waiting_reader(places: Places) -> str | None:
    """Leaves a FIFO in the checkout, and a process that waits for what is written to it."""
    fifo = Path(places.checkout, "README.txt")
    os.mkfifo(fifo)
    if os.fork() == 0:
        os.setsid()
        os.open(fifo, os.O_RDWR)
        live_on(places, "waiting_reader")
    return begun(places, "waiting_reader")


@attack_on(
    "lifetime",
    "Only the checkout and scratch may be written.",
    seen=lambda places: planted(places.files["crontab"]),
)
def write_crontab(places: Places) -> str | None:
    """Appends a line to what cron runs as the job's user, long after the bead."""
    return plant(places.files["crontab"])
