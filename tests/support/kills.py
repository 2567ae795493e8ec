"""SIGKILL of a process at each place in the program that changes the file system."""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

from tests.repository.tools import fork, wait_end

_NAMES = ("rename", "mkdir", "rmdir", "remove", "link", "symlink", "chmod", "chown", "utime")
_CHANGES = frozenset(f"os.{name}" for name in (*_NAMES, "truncate", "setxattr"))
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PROGRAM = f"{Path(__file__).parents[2] / 'gitlab_nightshift'}/"

Act = Callable[[], object]


def killed_at_each_place(
    act: Act,
    elsewhere: Path,
    *,
    within: str | tuple[str, ...] = "",
    last: bool = False,
    prepare: Act = lambda: None,
) -> Iterator[str]:
    """Let ``act`` run in a fork that is killed before a line of the program changes the file
    system, and yield where that was: for each line, the first time that it does so, and with
    ``last`` also the last time.

    Only lines of modules whose path begins with ``within``, or one of them. Changes below
    ``elsewhere`` do not count. Of a file that was to be written an empty one is left, as of a write
    that was cut off.
    ``prepare`` is called before each fork.
    """
    prepare()
    times = Counter(_places(act, elsewhere))
    places = [place for place in times if place.partition(" at ")[2].startswith(within)]
    assert len(places) > 2
    for place in places:
        for time in sorted({1, times[place]} if last else {1}):
            prepare()
            status = wait_end(fork(partial(_dying, act, place, time, elsewhere)))
            assert status == -signal.SIGKILL, (place, time)
            yield f"{place}, time {time}"


def _places(act: Act, elsewhere: Path) -> list[str]:
    """The event and the line of each change of a run that nobody kills."""
    reading, writing = os.pipe()
    pid = fork(partial(_noting, act, elsewhere, writing))
    os.close(writing)
    with os.fdopen(reading) as file:
        found = file.read().splitlines()
    assert wait_end(pid) == 0
    return found


def _noting(act: Act, elsewhere: Path, writing: int) -> None:
    found: list[str] = []
    _hook(elsewhere, lambda place, _: found.append(place))
    act()
    os.write(writing, "\n".join(found).encode())


def _dying(act: Act, place: str, times: int, elsewhere: Path) -> None:
    left = times

    def count(at: str, path: object) -> None:
        nonlocal left
        left -= at == place
        if left == 0:
            if at.startswith("open ") and isinstance(path, str):
                _cut_off(path)
            os.kill(os.getpid(), signal.SIGKILL)

    _hook(elsewhere, count)
    act()


def _cut_off(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        if path.startswith("/"):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _hook(elsewhere: Path, on_change: Callable[[str, object], object]) -> None:
    """From now on call ``on_change`` before each change that the program makes, for good."""

    def hook(event: str, args: tuple[object, ...]) -> None:
        if _is_change(event, args, elsewhere) and (line := _line()):
            on_change(f"{event} at {line}", args[0])

    sys.addaudithook(hook)


def _line() -> str:
    """The innermost line of the program, "" where none is on the stack."""
    frame: FrameType | None = sys._getframe(2)
    while frame and not frame.f_code.co_filename.startswith(_PROGRAM):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.removeprefix(_PROGRAM)}:{frame.f_lineno}" if frame else ""


def _is_change(event: str, args: tuple[object, ...], elsewhere: Path) -> bool:
    if event == "open":
        if not isinstance(args[2], int) or not args[2] & _WRITING:
            return False
    elif event not in _CHANGES:
        return False
    path = args[0]
    if isinstance(path, str | bytes | os.PathLike):
        return not Path(os.fsdecode(path)).is_relative_to(elsewhere)
    return True
