"""Real programs: every way to end one, the output that is kept, and that nothing is left."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitlab_nightshift.errors import Code, Interruption, NightshiftError
from gitlab_nightshift.sandbox import process
from gitlab_nightshift.sandbox.process import (
    NOT_FOUND,
    CapturedOutput,
    EndReason,
    ProcessLimits,
    ProgramEnd,
    ProgramStartError,
    capture,
    stream,
)
from gitlab_nightshift.system import processes, pump
from gitlab_nightshift.system.processes import list_own_children
from gitlab_nightshift.system.pump import Pump
from gitlab_nightshift.system.signals import enable_cancellation
from tests.repository.tools import fork, wait_end

PYTHON = sys.executable
ENV = {"PATH": os.environ["PATH"]}
NO_LIMITS = ProcessLimits()
DAEMON = """
import os, sys, time
reader, writer = os.pipe()
if os.fork():
    os.wait()
    os.read(reader, 1)
    {then}
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.write(writer, b".")
time.sleep(60)
"""
"""Leaves a process behind, which prints its pid."""


@dataclass
class Box:
    """Runs programs in a folder, and collects their lines."""

    folder: Path
    lines: list[bytes] = field(default_factory=list)

    def stream(
        self,
        *argv: str,
        stdin: bytes = b"",
        limits: ProcessLimits = NO_LIMITS,
        until: bytes | None = None,
        name: str = "1",
        on_tick: Callable[[], bool] = lambda: False,
    ) -> ProgramEnd:
        def on_line(line: bytes) -> bool:
            self.lines.append(line)
            return line == until

        names = (self.folder / f"{name}.out", self.folder / f"{name}.err")
        with names[0].open("wb") as out, names[1].open("wb") as err:
            return stream(
                argv, cwd=self.folder, env=ENV, stdin=stdin, stdout=out, stderr=err,
                limits=limits, on_line=on_line, on_tick=on_tick,
            )  # fmt: skip

    @property
    def out(self) -> bytes:
        return (self.folder / "1.out").read_bytes()

    @property
    def err(self) -> bytes:
        return (self.folder / "1.err").read_bytes()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    before = list_own_children()
    yield Box(tmp_path)
    assert list_own_children() <= before, "a program was left behind"


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state != b"Z"
    return False


# --- output and input -----------------------------------------------------------------------------


def test_output_goes_raw_to_two_files_and_line_by_line_to_the_caller(box: Box) -> None:
    ended = box.stream("sh", "-c", r"printf 'one\n\ntwo\377\r\nlast'; printf 'other\n' >&2; exit 3")
    assert (ended.end, ended.exit_status) == (EndReason.EXITED, 3)
    assert (box.out, box.err) == (b"one\n\ntwo\xff\r\nlast", b"other\n")
    assert box.lines == [b"one", b"", b"two\xff\r", b"last"]


def test_the_last_output_of_a_program_is_not_lost(box: Box) -> None:
    for _ in range(20):
        box.lines.clear()
        box.stream("sh", "-c", "echo a; echo b >&2; echo c")
        assert (box.lines, box.err) == ([b"a", b"c"], b"b\n")


def test_standard_input_may_be_larger_than_a_pipe(box: Box) -> None:
    data = os.urandom(5_000_000)
    assert box.stream("cat", stdin=data).exit_status == 0
    assert box.out == data


@pytest.mark.parametrize("command", ["true", "exec <&-; sleep 0.1", "head -c 1 >/dev/null"])
def test_a_program_need_not_read_its_input(box: Box, command: str) -> None:
    assert box.stream("sh", "-c", command, stdin=b"x" * 5_000_000).end is EndReason.EXITED


def test_a_short_program_does_not_wait_for_a_poll(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TICK_S", 90.0)
    assert box.stream("true").duration_s < 60


def test_a_program_that_closes_its_output_may_go_on(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TICK_S", 90.0)
    ended = box.stream("sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4")
    assert (ended.end, ended.exit_status) == (EndReason.EXITED, 4)
    assert 0.2 <= ended.duration_s < 60


def test_only_the_beginning_of_a_long_line_is_kept(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its end: the two together may be well-formed JSON."""
    monkeypatch.setattr(pump, "LONGEST_LINE", 1000)
    box.stream("sh", "-c", "head -c 3000000 /dev/zero; echo end; echo next")
    assert len(box.out) == 3_000_009
    assert box.lines == [bytes(1000), b"next"]


PRINTED_AT_ONCE = """
import os
os.set_blocking(1, False)
os.read(0, 1)
os._exit(os.write(1, b"x" * 900_000 + b"\\n") != 900_001)
"""
"""As an agent's CLI prints: output that does not fit into the pipe at once is lost."""


def test_output_that_is_printed_without_blocking_is_not_lost(box: Box) -> None:
    ended = box.stream(sys.executable, "-c", PRINTED_AT_ONCE, stdin=b".")
    assert (ended.exit_status, box.lines) == (0, [b"x" * 900_000])


def measure(folder: Path, command: str) -> None:
    """Report the bytes and lines of the output, and the growth of memory in MB."""
    lines, before = [0], peak()

    def on_line(line: bytes) -> bool:
        lines[0] += 1
        return False

    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        stream(
            ["sh", "-c", command], cwd=folder, env=ENV, stdin=b"", stdout=out, stderr=err,
            limits=NO_LIMITS, on_line=on_line,
        )  # fmt: skip
    size = (folder / "out").stat().st_size
    (folder / "report").write_text(f"{size} {lines[0]} {peak() - before}")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("head -c 200000000 /dev/zero", 1),
        ("yes $(head -c 999 /dev/zero | tr '\\0' x) | head -c 200000000", 200_000),
    ],
    ids=["one line", "many lines"],
)
def test_much_output_costs_little_memory(command: str, lines: int, tmp_path: Path) -> None:
    assert wait_end(fork(partial(measure, tmp_path, command))) == 0
    size, seen, megabytes = map(int, (tmp_path / "report").read_text().split())
    assert (size, seen) == (200_000_000, lines)
    assert megabytes < 64


# --- how a program ends ---------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "status"), [("kill -TERM $$", -15), ("kill -KILL $$", -9)])
def test_an_end_by_a_signal_is_a_negative_status(box: Box, command: str, status: int) -> None:
    ended = box.stream("sh", "-c", command)
    assert (ended.end, ended.exit_status) == (EndReason.EXITED, status)


@pytest.mark.parametrize("program", ["no-such-program", "./missing", "/nowhere/x"])
def test_a_program_that_does_not_exist(box: Box, program: str) -> None:
    with pytest.raises(ProgramStartError, match="No such file or directory"):
        box.stream(program)
    done = capture([program], cwd=box.folder, env=ENV)
    assert done == CapturedOutput(NOT_FOUND, b"", f"{program}: No such file or directory".encode())
    assert not done.ok


@pytest.mark.parametrize("name", ["1.out", "1.err"])
def test_a_full_disk_is_no_missing_program(box: Box, name: str) -> None:
    (box.folder / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        box.stream("sh", "-c", "head -c 99999 /dev/zero; head -c 99999 /dev/zero >&2; sleep 60")
    assert not isinstance(caught.value, ProgramStartError)


@pytest.mark.parametrize(
    ("command", "limits", "end"),
    [
        ("sleep 60", ProcessLimits(timeout_s=0.3), EndReason.TIMEOUT),
        (
            "while :; do echo x; sleep 0.05; done",
            ProcessLimits(timeout_s=0.5, idle_s=60),
            EndReason.TIMEOUT,
        ),
        ("yes", ProcessLimits(timeout_s=0.5), EndReason.TIMEOUT),
        ("echo x; sleep 60", ProcessLimits(timeout_s=90, idle_s=0.3), EndReason.IDLE),
        ("exec >&- 2>&-; sleep 60", ProcessLimits(idle_s=0.3), EndReason.IDLE),
        ("yes", ProcessLimits(timeout_s=90, output_bytes=1_000_000), EndReason.OUTPUT_LIMIT),
        ("yes >&2", ProcessLimits(timeout_s=90, output_bytes=1_000_000), EndReason.OUTPUT_LIMIT),
    ],
)
def test_a_limit_ends_a_program(
    box: Box, command: str, limits: ProcessLimits, end: EndReason
) -> None:
    ended = box.stream("sh", "-c", command, limits=limits)
    assert ended.end is end
    assert ended.exit_status in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL)
    if limits.output_bytes:
        printed = len(box.out) + len(box.err)
        assert limits.output_bytes < printed < limits.output_bytes + 2 * pump.PIPE_BYTES


@pytest.mark.parametrize("where", ["1", "2"])
def test_a_program_that_prints_is_not_idle(
    box: Box, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute passes with each output, and no time without."""
    real, now = Pump._read, [0]

    def read(self: Pump, fd: int) -> bool:
        if has_printed := real(self, fd):
            now[0] += 60
        return has_printed

    monkeypatch.setattr(Pump, "_read", read)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    script = f"for i in 1 2 3 4 5; do echo $i >&{where}; sleep 0.05; done"
    ended = box.stream("sh", "-c", script, limits=ProcessLimits(idle_s=100))
    assert (ended.end, ended.exit_status) == (EndReason.EXITED, 0)
    assert now[0] > 100


def test_the_caller_may_end_a_program_at_a_line(box: Box) -> None:
    ended = box.stream("sh", "-c", "echo go; echo stop; sleep 60", until=b"stop")
    assert ended.end is EndReason.STOPPED
    assert box.lines[:2] == [b"go", b"stop"]


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_program_gets_sigint_and_sigterm_before_sigkill(
    box: Box, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = process._signal_group

    def send(pid: int, number: signal.Signals) -> None:
        monkeypatch.setattr(process, "GRACE_S", 60 if number.name == f"SIG{name}" else 0.1)
        real(pid, number)

    monkeypatch.setattr(process, "_signal_group", send)
    script = f"trap '' INT TERM; trap 'echo bye; exit 5' {name}; echo go; "
    # As in the command itself: what was ignored when the tests began cannot be trapped by a shell.
    with enable_cancellation():
        ended = box.stream("sh", "-c", script + "while :; do sleep 0.05; done", until=b"go")
    assert (ended.end, ended.exit_status) == (EndReason.STOPPED, 5)
    assert box.lines[-1] == b"bye"


def test_a_program_that_ignores_signals_is_killed(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    ended = box.stream("sh", "-c", "trap '' INT TERM; echo go; sleep 60", until=b"go")
    assert (ended.end, ended.exit_status) == (EndReason.STOPPED, -signal.SIGKILL)


def test_on_tick_is_called_several_times_a_second(box: Box) -> None:
    ticks = iter([False, False, False, True])
    assert box.stream("sleep", "300", on_tick=lambda: next(ticks)).end is EndReason.STOPPED
    assert process.TICK_S <= 0.25


def test_an_error_in_a_callback_ends_the_program(box: Box) -> None:
    def fail_at_a_line() -> bool:
        if box.lines:
            raise ZeroDivisionError
        return False

    with pytest.raises(ZeroDivisionError):
        box.stream("sh", "-c", "echo $$; sleep 60", on_tick=fail_at_a_line)
    assert not alive(int(box.lines[0]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_us_ends_the_program(box: Box, number: int) -> None:
    tick = iter([0, 1])

    def kill() -> bool:
        if next(tick, None) == 1:
            os.kill(os.getpid(), number)
        return False

    with pytest.raises(Interruption), enable_cancellation():
        box.stream("sh", "-c", "trap '' INT; echo $$; sleep 60", on_tick=kill)
    assert not alive(int(box.lines[0]))


# --- nothing is left ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "limits"), [("pass", NO_LIMITS), ("time.sleep(60)", ProcessLimits(idle_s=0.5))]
)
def test_a_daemon_outside_the_process_group_is_killed(
    box: Box, then: str, limits: ProcessLimits
) -> None:
    box.stream(PYTHON, "-c", DAEMON.format(then=then), limits=limits)
    assert not alive(int(box.lines[0]))


def test_a_child_that_keeps_the_output_open_is_not_awaited(box: Box) -> None:
    ended = box.stream("sh", "-c", "sleep 60 & echo $!")
    assert (ended.end, ended.exit_status) == (EndReason.EXITED, 0)
    assert not alive(int(box.lines[0]))


def test_a_chain_of_forks_is_killed(box: Box) -> None:
    code = """
import os, time
end = time.time() + 20
if os.fork():
    time.sleep(0.2)
    os._exit(0)
os.setsid()
while time.time() < end:
    if os.fork():
        os._exit(0)
open("escaped", "w")
"""
    box.stream(PYTHON, "-c", code)
    assert not (box.folder / "escaped").exists()


def test_a_process_that_cannot_be_ended_is_an_error(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "KILL_WAIT_S", 0.0)
    try:
        with pytest.raises(NightshiftError, match="left processes behind") as caught:
            box.stream(PYTHON, "-c", DAEMON.format(then="pass"))
        assert caught.value.code is Code.POLICY_DENY
        left = int((box.folder / "1.out").read_text())
        assert alive(left)
    finally:
        left = int((box.folder / "1.out").read_text())
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)


def test_other_children_are_not_killed(box: Box) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            box.stream(PYTHON, "-c", DAEMON.format(then="pass"))
            assert other.poll() is None
        finally:
            other.kill()


def test_programs_of_other_threads_are_not_killed(box: Box) -> None:
    ends: list[ProgramEnd] = []

    def others(number: int) -> None:
        for turn in range(25):
            ends.append(box.stream("sh", "-c", "exit 7", name=f"{number}-{turn}"))

    def capturing() -> None:
        for _ in range(25):
            assert capture(["sh", "-c", "exit 7"], cwd=box.folder, env=ENV).exit_status == 7
        ends.append(ProgramEnd(EndReason.EXITED, 7, 0))

    threads = [threading.Thread(target=others, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=capturing))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [(ended.end, ended.exit_status) for ended in ends] == [(EndReason.EXITED, 7)] * 76


def test_children_are_found_without_the_kernels_list(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.glob
    with subprocess.Popen(["sleep", "60"]) as child:
        known = list_own_children()
        monkeypatch.setattr(
            Path, "glob", lambda path, pattern: [] if "children" in pattern else real(path, pattern)
        )
        assert list_own_children() == known
        assert child.pid in known
        child.kill()


# --- the environment of a program -----------------------------------------------------------------


def test_no_descriptor_of_ours_is_inherited(box: Box) -> None:
    with (box.folder / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        box.stream(PYTHON, "-c", code)
        found = capture([PYTHON, "-c", code], cwd=box.folder, env=ENV).stdout
    assert box.lines == [b"[0, 1, 2, 3]"], "3 is the folder that is listed"
    assert found == b"[0, 1, 2, 3]\n"


def test_a_program_gets_its_own_session_folder_and_environment(box: Box) -> None:
    box.stream(PYTHON, "-c", "import os; print(os.getsid(0) == os.getpid(), os.getcwd())")
    box.stream("env")
    assert box.lines == [f"True {box.folder}".encode(), f"PATH={ENV['PATH']}".encode()]


def test_capture_returns_all_of_a_short_program(tmp_path: Path) -> None:
    done = capture(
        ["sh", "-c", "cat; echo err >&2; exit 3"], cwd=tmp_path, env=ENV, stdin=b"x" * 300_000
    )
    assert done == CapturedOutput(3, b"x" * 300_000, b"err\n")
    assert not done.ok
    assert capture(["true"], cwd=tmp_path, env=ENV).ok


def test_capture_ends_a_program_that_is_too_slow(tmp_path: Path) -> None:
    done = capture(["sleep", "60"], cwd=tmp_path, env=ENV, timeout_s=0.3)
    assert done == CapturedOutput(-signal.SIGKILL, b"", b"no end within 0 s")
