"""``python -I -S sealed_entry.py DESCRIPTOR [PARENT]``: the sealed interpreter's first module (see
``sealed_start.py``).

A stage (``sandbox/stage_process.py``) runs in this process. A command runs in a child, and this
process waits for it, small enough for the kernel to spare it when memory runs out. If the command
is killed, this process ends what it left running, restores the checkout and dies by the same
signal; if this process is killed, the command gets SIGTERM. Until ``sys.path`` is set to the
installation's, only the standard library can be imported.
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
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT)
COLLECTION_THRESHOLD = 25_000
"""New objects between two garbage collections: with Python's 700, imports take 5 % longer."""


def enter() -> int:
    """Run the stage of the start data, or its command in a child."""
    descriptor, *parents = map(int, sys.argv[1:])
    if parents:
        end_with_parent(parents[0])
    # The descriptor has secrets: with this, other processes of the user cannot open /proc/PID/fd
    # (proc(5)).
    _call_prctl(PR_SET_DUMPABLE, 0)
    data = _read_start_data(descriptor)
    if "stage" in data:
        os.close(descriptor)
        return run_stage(data)
    waiting_pid = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
    # ``delegate`` has to print a JSON object however it ends: its stdout is kept in memory.
    output = os.memfd_create("answer") if data["arguments"][:1] == ["delegate"] else None
    command = os.fork()
    if command:
        return wait_for_command(command, descriptor, output)
    end_with_parent(waiting_pid)
    os.close(descriptor)
    if output is None:
        return run_command(data)
    stdout = os.dup(1)
    os.dup2(output, 1)
    status = run_command(data)
    sys.stdout.flush()
    if os.getppid() != waiting_pid:  # it was killed, and cannot print the output
        return print_output(output, status, stdout)
    return status


def run_command(data: dict[str, Any]) -> int:
    """Run the command; ``cli.run`` unblocks the signals once it handles them."""
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
        gc.freeze()  # the process ends: another collection would be wasted time


def run_stage(data: dict[str, Any]) -> int:
    """Run ``main`` of the stage's module, after dropping all rights except ``rights``."""
    gc.disable()  # collections would take 5 to 8 % of the imports, and find no garbage
    module = importlib.import_module(data["stage"])
    if rights := data.get("rights"):
        from gitlab_nightshift.sandbox.privilege_drop import ProcessRights, restrict_to

        restrict_to(ProcessRights(**rights))
    gc.freeze()
    gc.enable()
    status: int = module.main(data)
    return status


def end_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the thread that started this process ends. Exits if the
    process ``parent`` has ended already."""
    # The kernel sends nothing for a parent that ended before the call (prctl(2), PR_SET_PDEATHSIG).
    _call_prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def _call_prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _read_start_data(descriptor: int) -> dict[str, Any]:
    """Read what ``sealed_start.py`` wrote, and add its folders to the import path."""
    with os.fdopen(os.dup(descriptor)) as file:
        data: dict[str, Any] = json.load(file)
    sys.path[:] = dict.fromkeys([*sys.path, *data["path"]])
    return data


# --- the process that waits -----------------------------------------------------------------------


def wait_for_command(command: int, descriptor: int, output: int | None) -> int:
    """Wait for the command's process, forward signals to it, and end as it ends. ``output`` is the
    file that ``delegate`` prints to, None for other commands."""
    _call_prctl(PR_SET_CHILD_SUBREAPER, 1)

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, number)

    for forwarded in FORWARDED_SIGNALS:
        signal.signal(forwarded, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED_SIGNALS)
    _, status = os.waitpid(command, 0)
    if not os.WIFSIGNALED(status):
        end_leftovers()
        return print_output(output, os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    with contextlib.suppress(Exception):  # the next start finishes what could not be done here
        clean_up_killed_command(descriptor, number)
    print_output(output, -number)
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


def print_output(output: int | None, status: int, stdout: int = 1) -> int:
    """Print the output of ``delegate``. If it is not complete JSON, print a result that says how
    the command ended (``status``, negative for a signal). Returns the exit status: ``status``,
    unless printing fails."""
    if output is None:
        return status
    with os.fdopen(output, "rb") as file:
        file.seek(0)
        text = file.read()
    try:
        json.loads(text)
    except ValueError:
        text = render_missing_result(status)
    try:
        with os.fdopen(stdout, "wb", closefd=False) as file:
            file.write(text)
    except OSError as error:  # the reader may have ended
        from gitlab_nightshift.wire.exit_status import report_lost_output

        return report_lost_output(error) or status
    return status


def render_missing_result(status: int) -> bytes:
    """The result of a delegation that ended without one."""
    from gitlab_nightshift.errors import CANCELLATION_CODES, STOPPED_BY_SIGNAL, Code
    from gitlab_nightshift.records.delegation_records import render_refusal

    codes = {code.exit_status: code for code in Code}
    code = codes.get(status, Code.INTERNAL)
    why = f"it ended with exit status {status} before it had a result: see stderr"
    if status < 0:
        code = Code.TERMINATED
        why = describe_kill(-status)
    elif code in CANCELLATION_CODES:
        why = STOPPED_BY_SIGNAL
    return f"{render_refusal(code, why)}\n".encode()


def describe_kill(number: int) -> str:
    """Which signal killed the command, and perhaps why: out of memory, the kernel sends SIGKILL."""
    from gitlab_nightshift.errors import OUT_OF_MEMORY_HINT

    memory = f", {OUT_OF_MEMORY_HINT}" if number == signal.SIGKILL else ""
    return f"killed by {signal.Signals(number).name}{memory}"


def clean_up_killed_command(descriptor: int, number: int) -> None:
    """Clean up now, as otherwise the next start in the checkout would. ``number`` is the signal
    that killed the command."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    data = _read_start_data(descriptor)
    from gitlab_nightshift.system.processes import end_orphans, list_own_children, wait_for_end

    # The stages got SIGTERM when the command ended (PR_SET_PDEATHSIG), and need some seconds.
    wait_for_end(list_own_children)
    end_orphans(list_own_children)
    from gitlab_nightshift.run_folder import clean_up_own_run

    why = describe_kill(number)
    repaired = "; the checkout is put back" if clean_up_own_run(data["env"], why) else ""
    sys.stderr.write(f"nightshift: {why}{repaired}\n")


if __name__ == "__main__":
    sys.exit(enter())
