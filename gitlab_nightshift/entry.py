"""``python -I -S entry.py DESCRIPTOR [PARENT]``: the sealed interpreter's first module (see
``sealed.py``).

It becomes two processes. One runs the command. The other is small and waits, so that it is not what
the kernel takes where memory runs out: if the command is killed, it ends what that has left behind,
puts the checkout back and ends in the same way. If it is killed itself, the command stops as by
SIGTERM. Standard library only until ``sys.path`` is the installation's.
"""

import contextlib
import json
import os
import signal
import sys
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
FORWARDED = (signal.SIGTERM, signal.SIGINT)


def enter() -> int:
    """Run the command that the descriptor names, in a child that is watched over."""
    descriptor, *parents = map(int, sys.argv[1:])
    for parent in parents:
        stop_with(parent)
    _control(PR_SET_DUMPABLE, 0)  # nobody else may look into the descriptor
    own = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    command = os.fork()
    if command:
        return watch(command, descriptor)
    stop_with(own)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    data = _opened(descriptor)
    os.close(descriptor)
    try:
        from gitlab_nightshift.cli import run
    except ImportError as error:
        sys.stderr.write(
            f"nightshift: E_CONFIG: {error}, looked for in {', '.join(data['path'])}: install"
            " nightshift and what it needs into one environment\n"
        )
        return 2
    return run(data["arguments"], data["env"])


def stop_with(parent: int) -> None:
    """Get SIGTERM when the thread ends that started this process, also if it has already."""
    _control(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def _control(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _opened(descriptor: int) -> dict[str, Any]:
    """What the start says (``sealed.prepare_start``); its folders are the import path then."""
    with os.fdopen(os.dup(descriptor)) as file:
        data: dict[str, Any] = json.load(file)
    sys.path[:] = [*sys.path, *data["path"]]
    return data


# --- the process that waits -----------------------------------------------------------------------


def watch(command: int, descriptor: int) -> int:
    """Wait for the command, pass signals on to it, and end as it does."""
    _control(PR_SET_CHILD_SUBREAPER, 1)

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, number)

    for each in FORWARDED:
        signal.signal(each, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    _, status = os.waitpid(command, 0)
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    with contextlib.suppress(Exception):  # the next start does what is left undone
        mend(descriptor, number)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def mend(descriptor: int, number: int) -> None:
    """Do for the killed command what the next start in its checkout would do."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    data = _opened(descriptor)
    from gitlab_nightshift.host.descendants import end_orphans, own_children

    end_orphans(own_children)
    from gitlab_nightshift.session import mend_killed

    if mend_killed(data["env"]):
        name = signal.Signals(number).name
        why = ", perhaps for lack of memory" if number == signal.SIGKILL else ""
        sys.stderr.write(f"nightshift: killed by {name}{why}; the checkout is put back\n")


if __name__ == "__main__":
    sys.exit(enter())
