"""What tests look at: whole trees, processes, and whether a secret is in a text."""

import gzip
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Tree = dict[str, tuple[Any, ...]]


def wait_for(true: Any, what: str, timeout_s: float = 60) -> None:
    """Wait until a function returns something true."""
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.02)


def whole_tree(top: Path) -> Tree:
    """Kind, mode, time and bytes (or link target) of all that is below a folder."""
    return dict(sorted(_entries(str(top), "")))


def _entries(folder: str, above: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    with os.scandir(folder) as listed:
        for entry in listed:
            name = f"{above}{entry.name}"
            yield name, _entry(entry)
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path, f"{name}/")


def _entry(entry: "os.DirEntry[str]") -> tuple[Any, ...]:
    status = entry.stat(follow_symlinks=False)
    if entry.is_symlink():
        return ("link", os.fsencode(os.readlink(entry.path)))  # noqa: PTH115 - many of them
    if entry.is_dir():
        return ("folder", oct(status.st_mode))
    if not entry.is_file():
        return ("other", oct(status.st_mode))
    # Git sets the time of an object that is stored a second time, by whoever borrows from it.
    time_ns = 0 if "/.git/objects/" in entry.path else status.st_mtime_ns
    with open(entry.path, "rb") as file:  # noqa: PTH123 - many of them
        return ("file", oct(status.st_mode), time_ns, file.read())


def assert_same(now: Tree, before: Tree) -> None:
    """Two trees are the same; the message is short where they are not."""
    different = [name for name in now.keys() | before.keys() if now.get(name) != before.get(name)]
    assert {n: (before.get(n), now.get(n)) for n in sorted(different)[:5]} == {}


def processes_in(folder: Path) -> list[str]:
    """Processes that work below a folder, as text, without this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            cwd, command = str((place / "cwd").readlink()), (place / "cmdline").read_bytes()
        except OSError:
            continue
        if cwd.startswith(f"{folder}/") and int(place.name) != os.getpid():
            found.append(f"{place.name} {command.decode(errors='replace')}")
    return found


def holds_anything_in(folder: Path) -> bool:
    """Whether another process has a file below a folder open, wherever it works."""
    for place in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it has ended
            for each in place.iterdir():
                held = str(each.readlink()).startswith(f"{folder}/")
                if held and int(place.parent.name) != os.getpid():
                    return True
    return False


def kill_all(pid: int) -> None:
    """Kill a process and all that it has started at one moment, as a container's end does."""
    known: list[int] = []
    found = [pid]
    while found:
        for each in found:
            _send(each, signal.SIGSTOP)
        known += found
        found = [child for each in found for child in _children(each)]
    for each in known:
        _send(each, signal.SIGKILL)


def _send(pid: int, sent: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it may have ended between the look and the signal
        os.kill(pid, sent)


def _children(pid: int) -> list[int]:
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def places_of(secrets: Iterable[str], texts: Mapping[str, str | bytes]) -> list[tuple[str, str]]:
    """Which secret is in which text."""
    rows = texts.items()
    raw = {name: t.encode(errors="replace") if isinstance(t, str) else t for name, t in rows}
    return [(s, name) for s in secrets for name, text in raw.items() if s.encode() in text]
