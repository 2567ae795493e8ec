"""``python -I -S sealed_entry.py DESCRIPTOR [PARENT]``: the sealed interpreter's first module (see
``sealed_start.py``).

A stage (``sandbox/stage_process.py``) runs in this process. A command is run by a child, and this
process waits for it. It stays small, so that the kernel does not choose it when memory runs out. If
the command is killed, this process ends what the command left running, puts the checkout back and
ends in the same way; if this process is killed, the command stops as by SIGTERM. Until ``sys.path``
is the installation's, only the standard library can be imported.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
FORWARDED = (signal.SIGTERM, signal.SIGINT)
COLLECTION_THRESHOLD = 25_000
"""New objects between two garbage collections: with Python's 700, imports take 5 % longer."""


def enter() -> int:
    """Run what the descriptor names: a stage, or a command in a child that is watched over."""
    descriptor, *parents = map(int, sys.argv[1:])
    for parent in parents:
        stop_with(parent)
    # The descriptor has secrets: with this, other processes of the user cannot open /proc/PID/fd
    # (proc(5)).
    _call_prctl(PR_SET_DUMPABLE, 0)
    data = _read_descriptor(descriptor)
    if "stage" in data:
        os.close(descriptor)
        return run_stage(data)
    own_pid = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    answer = os.memfd_create("answer") if data["arguments"][:1] == ["delegate"] else None
    command = os.fork()
    if command:
        return watch(command, descriptor, answer)
    stop_with(own_pid)
    os.close(descriptor)
    if answer is None:
        return run_command(data)
    stdout = os.dup(1)
    os.dup2(answer, 1)
    status = run_command(data)
    sys.stdout.flush()
    if os.getppid() != own_pid:  # the waiting process, which would pass the answer on, was killed
        return pass_on(answer, status, stdout)
    return status


def run_command(data: dict[str, Any]) -> int:
    """Run the command; ``cli.run`` lets signals in once it handles them."""
    try:
        from gitlab_nightshift.cli import run
    except ImportError as error:
        sys.stderr.write(
            f"nightshift: E_CONFIG: {error}, looked for in {', '.join(data['path'])}: install"
            " nightshift and what it needs into one environment\n"
        )
        return 2
    gc.set_threshold(COLLECTION_THRESHOLD)
    try:
        return run(data["arguments"], data["env"])
    finally:
        gc.freeze()  # the process ends: a collection would free nothing that matters


def run_stage(data: dict[str, Any]) -> int:
    """Run ``main`` of the module that the start names. The process first gives up the rights that
    its row does not have."""
    gc.disable()  # modules are no garbage: collections take 5 to 8 % of their import
    module = importlib.import_module(data["stage"])
    if rights := data.get("rights"):
        from gitlab_nightshift.sandbox.privilege_drop import ProcessRights, restrict_to

        restrict_to(ProcessRights(**rights))
    gc.freeze()
    gc.enable()
    status: int = module.main(data)
    return status


def stop_with(parent: int) -> None:
    """Get SIGTERM when the thread that started this process ends; exit if ``parent`` has ended
    already."""
    # The kernel sends nothing for a parent that ended before the call (prctl(2), PR_SET_PDEATHSIG).
    _call_prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def _call_prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _read_descriptor(descriptor: int) -> dict[str, Any]:
    """The data of the start (``sealed_start.py``); its folders are added to the import path."""
    with os.fdopen(os.dup(descriptor)) as file:
        data: dict[str, Any] = json.load(file)
    sys.path[:] = dict.fromkeys([*sys.path, *data["path"]])
    return data


# --- the process that waits -----------------------------------------------------------------------


def watch(command: int, descriptor: int, answer: int | None) -> int:
    """Wait for the command, forward signals to it, and end as it ends. ``answer`` is the file that
    ``delegate`` prints to, None for other commands: it answers with a JSON object however it
    ends."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, number)

    for each in FORWARDED:
        signal.signal(each, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    _, status = os.waitpid(command, 0)
    if not os.WIFSIGNALED(status):
        end_leftovers()
        return pass_on(answer, os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    with contextlib.suppress(Exception):  # the next start does what is left undone
        mend(descriptor, number)
    pass_on(answer, -number)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def end_leftovers() -> None:
    """End the processes that the command has left running, such as a daemon of planted code."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # raises ChildProcessError if there are none
        from gitlab_nightshift.system.processes import end_orphans, list_own_children

        end_orphans(list_own_children)


def pass_on(answer: int | None, status: int, stdout: int = 1) -> int:
    """Print the command's answer, or if that is not whole JSON, one that says how the command ended
    (``status``, negative for a signal). Returns the exit status, another one if the answer could
    not be printed."""
    if answer is None:
        return status
    with os.fdopen(answer, "rb") as file:
        file.seek(0)
        text = file.read()
    try:
        json.loads(text)
    except ValueError:
        text = describe_end(status)
    try:
        with os.fdopen(stdout, "wb", closefd=False) as file:
            file.write(text)
    except OSError as error:  # nobody may read it any more
        from gitlab_nightshift.wire.exit_status import report_lost_output

        return report_lost_output(error) or status
    return status


def describe_end(status: int) -> bytes:
    """The result of a delegation that ended without one."""
    from gitlab_nightshift.errors import CANCELLED, STOPPED, Code
    from gitlab_nightshift.records.delegation_records import render_refusal

    codes = {code.exit_status: code for code in Code}
    code = codes.get(status, Code.INTERNAL)
    why = f"it ended with exit status {status} before it had a result: see stderr"
    if status < 0:
        code = Code.TERMINATED
        why = describe_kill(-status)
    elif code in CANCELLED:
        why = STOPPED
    return f"{render_refusal(code, why)}\n".encode()


def describe_kill(number: int) -> str:
    """Why a command ended by this signal. Only SIGKILL is what the kernel sends for memory."""
    from gitlab_nightshift.errors import KILLED

    memory = f", {KILLED}" if number == signal.SIGKILL else ""
    return f"killed by {signal.Signals(number).name}{memory}"


def mend(descriptor: int, number: int) -> None:
    """Do for the killed command what the next start in its checkout would do."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    data = _read_descriptor(descriptor)
    from gitlab_nightshift.system.processes import end_orphans, list_own_children, wait_for_end

    # Its stages get a signal when it ends (PR_SET_PDEATHSIG), and clean up within some seconds.
    wait_for_end(list_own_children)
    end_orphans(list_own_children)
    from gitlab_nightshift.run_folder import mend_killed

    why = describe_kill(number)
    mended = "; the checkout is put back" if mend_killed(data["env"], why) else ""
    sys.stderr.write(f"nightshift: {why}{mended}\n")


if __name__ == "__main__":
    sys.exit(enter())
