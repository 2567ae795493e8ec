"""What planted code tries, with the standard library alone: each attempt returns what it got, ""
for nothing.

They look for words that the test has planted, by patterns that do not contain them: a pattern is
itself in the memory that is searched.
"""

import contextlib
import ctypes
import gc
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS

WORDS = {
    pattern.partition(b"[")[0]: re.compile(pattern)
    for pattern in (
        *(rb"glpat-[B]otToken\w+", rb"glcbt-[J]obToken\w+", rb"sk-test-[M]odelKey\w+"),
        *(rb"nobody-[s]hould-see-this", rb"in-the-[r]eal-configuration"),
        *(rb"a-password-[a]t-home", rb"of-the-[s]ocket"),
    )
}
"""By what they begin with, which is found in less time than a pattern is."""
CHUNK = 1 << 22
PTRACE_SEIZE, EFAULT = 0x4206, 14
PIDFD_OPEN, PIDFD_GETFD = 434, 438
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Places:
    """What is known of the job, to an agent too: ``entry`` is what our processes' command lines
    have in common, ``installation`` a folder that this program is imported from, ``listener`` an
    abstract name, ``namespace`` the job's of pids, ``temporary`` the job's folder for that,
    ``private`` the run's in it, ``port`` GitLab's on this machine. ``groups`` are processes that
    were found before, where none can be now."""

    checkout: str
    home: str
    entry: str
    installation: str
    listener: str
    namespace: str
    temporary: str
    private: str = ""
    port: int = 0
    groups: dict[str, list[int]] | None = None


def own() -> dict[str, str]:
    """What the process itself holds: tried first, before anything found is in its memory."""
    pid = os.getpid()
    return {
        "its own values": found_in(_own_values()),
        "its own memory": _first(_memory, [pid]),
        "its own environ": found_in([os.environb[name] for name in os.environb]),
        "its own descriptors": _first(_descriptors, [pid]),
    }


def everything(places: Places) -> dict[str, str]:
    """All of it, by name."""
    found = own()
    for group, pids in (places.groups or find_groups(places)).items():
        for what, way in WAYS.items():
            found[f"{what} of {group}"] = _first(way, pids)
    for name, attempt in OTHERS.items():
        found[name] = _tried(attempt, places)
    return found


def found_in(parts: Iterator[bytes] | list[bytes]) -> str:
    """The words in some data."""
    data = bytearray()  # a list would be among the values that are looked through
    for part in parts:
        data += part + b"\n"
    return " ".join(sorted(_words(data)))


def _words(data: bytes | bytearray) -> set[str]:
    patterns = [pattern for begin, pattern in WORDS.items() if begin in data]
    return {word.decode() for pattern in patterns for word in pattern.findall(data)}


def _tried(attempt: Callable[[Places], str], places: Places) -> str:
    try:
        return attempt(places)
    except OSError:
        return ""


def _first(way: Callable[[int], str], pids: list[int]) -> str:
    """What it gets from the first process that yields something."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if got := way(pid):
                return got
    return ""


def _read(path: str | Path, size: int = 1 << 20) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read(size) or b""


# --- processes ------------------------------------------------------------------------------------


def find_groups(places: Places) -> dict[str, list[int]]:
    """Our other processes, the job's shell (the first ancestor that is none of them), and what is
    above it."""
    own = {pid for pid in _all() if pid == os.getpid() or _is_inside(pid, places.namespace)}
    ours = [pid for pid in _all() if _is_started_by(places.entry.encode(), pid)]
    theirs = [pid for pid in _ancestors() if pid not in {*ours, *own}]
    return {
        "our processes": [pid for pid in ours if pid not in own],
        "the job's shell": theirs[:1],
        "its ancestors": theirs[1:3],  # who runs the test; those above do not matter
    }


def _is_inside(pid: int, namespace: str) -> bool:
    """True for a process in the namespace that confines this one: it holds no more than that."""
    with contextlib.suppress(OSError):
        mine, its = (os.readlink(f"/proc/{each}/ns/pid") for each in ("self", pid))  # noqa: PTH115
        return mine == its != namespace
    return False


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    with contextlib.suppress(OSError):
        while (pid := int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])) > 0:
            yield pid


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_started_by(entry: bytes, pid: int) -> bool:
    """The command line is wiped: git's of any process on the machine may hold a token, which would
    be found in the memory of who looked."""
    line = bytearray(1 << 16)
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123
            file.readinto(line)
        return entry in line
    except OSError:
        return False
    finally:
        line[:] = bytes(len(line))


def _own_values() -> Iterator[bytes]:
    """Texts in all that this interpreter knows: a tuple that is being made is read by no loop."""
    for each in gc.get_objects():
        for part in gc.get_referents(each):
            if isinstance(part, str | bytes):
                yield part.encode("utf-8", "replace") if isinstance(part, str) else part


def _memory(pid: int) -> str:
    return " ".join(sorted(set().union(*_read_memory(pid))))


def _some_memory(pid: int) -> str:
    """Of another process one piece tells that it can be read: those who run the tests are large."""
    return " ".join(sorted(next(filter(None, _read_memory(pid)), ())))


def _read_memory(pid: int) -> Iterator[set[str]]:
    """The words in each piece of a process's memory."""
    spans = Path(f"/proc/{pid}/maps").read_text().splitlines()  # one read gives a page of them
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for span in (line.split()[0].split("-") for line in spans if " rw" in line):
            start, end = (int(part, 16) for part in span)
            with contextlib.suppress(OSError, OverflowError, ValueError):
                for at in range(start, end, CHUNK):
                    memory.seek(at)
                    part = memory.read(min(CHUNK + 100, end - at))
                    yield _words(part or b"")


def _descriptors(pid: int) -> str:
    """What can be read through a process's open files: a file without a name is one, too."""
    parts = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("/memfd:") or Path(target).is_file():
                fd = os.open(entry, os.O_RDONLY | os.O_NONBLOCK)
                with os.fdopen(fd, "rb", buffering=0) as file:
                    parts.append(file.read(1 << 20) or b"")
    return found_in(parts)


def _traced(pid: int) -> str:
    """By a child, with which it ends. Nobody is stopped: two processes that stop each other at the
    same time, as this code runs in several, would stay so."""
    if (child := os.fork()) == 0:
        os._exit(_libc.ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
    return "" if os.waitpid(child, 0)[1] else "traced"


def _read_by_call(pid: int) -> str:
    class Span(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    room = ctypes.create_string_buffer(8)
    ours, theirs = Span(ctypes.addressof(room), 8), Span(4096, 8)
    done: int = _libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    # allowed, there is only nothing there
    return "allowed" if done >= 0 or ctypes.get_errno() == EFAULT else ""


def _taken(pid: int) -> str:
    handle = _libc.syscall(PIDFD_OPEN, pid, 0)
    taken = _libc.syscall(PIDFD_GETFD, handle, 0, 0) if handle >= 0 else -1
    for fd in (handle, taken):
        if fd >= 0:
            os.close(fd)
    return "taken" if taken >= 0 else ""


def _signalled(pid: int) -> str:
    os.kill(pid, 0)
    return "may be signalled"


def _slowed(pid: int) -> str:
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
    return "may be slowed down"


WAYS: dict[str, Callable[[int], str]] = {
    "environ": lambda pid: found_in([_read(f"/proc/{pid}/environ")]),
    "memory": _some_memory,
    "memory by a call": _read_by_call,
    "descriptors": _descriptors,
    "a descriptor": _taken,
    "signals": _signalled,
    "tracing": _traced,
    "priorities": _slowed,
}


# --- files ----------------------------------------------------------------------------------------


def _files(*names: str) -> str:
    parts = []
    for name in names:
        with contextlib.suppress(OSError):
            parts.append(_read(name))
    return found_in(parts)


def _of_tmp(places: Places) -> str:
    return _files(*map(str, Path(f"{places.checkout}.tmp").rglob("*")))


def _git_configs(places: Places) -> list[str]:
    aside = Path(f"{places.checkout}.nightshift").rglob("config")
    return [f"{places.checkout}/.git/config", *map(str, aside)]


def _made_in(folder: str | Path, known_as: str = "") -> str:
    """A new file in a folder: which that is, to be told from one that only this process sees."""
    path = Path(folder, f".nightshift-planted-{os.getpid()}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.unlink()
    return id_of(folder, known_as)


def _opened(path: str | Path, known_as: str = "") -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    return id_of(path, known_as)


def id_of(path: str | Path, known_as: str = "") -> str:
    """What a file is, whatever its name; ``known_as`` is that after the run."""
    status = os.stat(path)  # noqa: PTH116
    return f"{known_as or path} {status.st_dev}:{status.st_ino}"


def _any(way: Callable[[str], str], places: list[str]) -> str:
    found = []
    for place in places:
        with contextlib.suppress(OSError):
            found.append(way(place))
    return "\n".join(found)


def _abstract(places: Places) -> str:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.settimeout(60)
        unix.connect(f"\0{places.listener}")
        return found_in([unix.recv(1000)])


def _in_home(places: Places) -> str:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.settimeout(60)
        unix.connect(f"{places.home}/agent")
        return found_in([unix.recv(1000)])


def _results(places: Places) -> tuple[str, str]:
    return f"{places.private}/results", f"{places.checkout}/nightshift"


def _listed(folder: str, known_as: str) -> str:
    return id_of(folder, known_as) if os.listdir(folder) else ""  # noqa: PTH208


def mislead(places: Places) -> None:
    """Leave in all that this process may write what could mislead whoever cleans up after it: the
    checkout, its own part of the state folder, its scratch folder, shared memory."""
    for attempt in (_spoil_checkout, _spoil_state, _spoil_scratch, _spoil_shared_memory):
        attempt(places)


def _spoil_checkout(places: Places) -> None:
    checkout = Path(places.checkout)
    (checkout / "planted").write_text("x")
    (checkout / "README.md").unlink(missing_ok=True)
    with contextlib.suppress(OSError), (checkout / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {checkout}/ran\n")


def _spoil_state(places: Places) -> None:
    state = Path(f"{places.checkout}.nightshift")
    shown = state / "own/shown"
    if shown.exists():
        shutil.rmtree(shown)
    else:
        shown.mkdir()
    (state / "own/reserve").unlink(missing_ok=True)
    (state / "own/reserve/full").mkdir(parents=True)
    closed = (*map(state.joinpath, ("saved.json", "note.json", "lock", "own")), state, state.parent)
    for path in closed:
        with contextlib.suppress(OSError):
            path.chmod(0)


def _spoil_scratch(places: Places) -> None:
    """Make it look like the folder of a killed run, whose results belong to a place of ours."""
    for inner in Path(tempfile.gettempdir()).parents[:2]:
        with contextlib.suppress(OSError):
            (inner / "lock").unlink(missing_ok=True)
            (inner / "lock").touch()
            (inner / "checkout").write_text(places.checkout)
            (inner / "output").write_text(f"{places.home}/recovered")
            (inner / "results").mkdir()
            (inner / "results/evil").write_text("x")


def _spoil_shared_memory(places: Places) -> None:
    with contextlib.suppress(OSError):
        Path("/dev/shm", places.listener).write_text("x")


def _connected(places: Places) -> str:
    with socket.create_connection(("127.0.0.1", places.port), timeout=60):
        return "connected"


def _listened(_places: Places) -> str:
    with socket.create_server(("127.0.0.1", 0)):
        return "listened"


def _send_datagram(_places: Places) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.connect(("127.0.0.1", 9))
        udp.send(b"x")
        return "sent"


# --- what Landlock does not see -------------------------------------------------------------------


def _change(way: Callable[[str | int], object], places: Places) -> str:
    """Which files, by name and by descriptor: each keeps what it has."""
    done = []
    for path in (f"{places.home}/.bashrc", f"{places.installation}/__init__.py"):
        with contextlib.suppress(OSError):
            way(path)
            done.append(id_of(path))
        with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
            way(file.fileno())
            done.append(id_of(path))
    return "\n".join(dict.fromkeys(done))


def _change_mode(file: str | int) -> None:
    os.chmod(file, os.stat(file).st_mode & 0o7777)  # noqa: PTH101, PTH116


def _change_owner(file: str | int) -> None:
    status = os.stat(file)  # noqa: PTH116
    os.chown(file, status.st_uid, status.st_gid)


def _give_away(file: str | int) -> None:
    status = os.stat(file)  # noqa: PTH116
    os.chown(file, status.st_uid + 1, status.st_gid)
    os.chown(file, status.st_uid, status.st_gid)


def _change_times(file: str | int) -> None:
    status = os.stat(file)  # noqa: PTH116
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _change_attribute(file: str | int) -> None:
    os.setxattr(file, "user.planted", b"x")
    os.removexattr(file, "user.planted")


# --- what would be left ---------------------------------------------------------------------------

NEW_USER = 0x10000000


def _stay(_places: Places) -> str:
    """A daemon, which whoever ends this process has to find."""
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    os.waitpid(child, 0)
    return "it stays"


def _enter_namespace(_places: Places) -> str:
    """In a child, where there may be one."""
    try:
        child = os.fork()
    except OSError:
        return "entered" if _libc.syscall(NUMBERS["unshare"], NEW_USER) == 0 else ""
    if child == 0:
        os._exit(_libc.syscall(NUMBERS["unshare"], NEW_USER) != 0)
    return "" if os.waitpid(child, 0)[1] else "entered"


def _share_memory(_places: Places) -> str:
    return "made" if _libc.syscall(NUMBERS["shmget"], 0, 4096, 0o600) >= 0 else ""


def _open_ring(_places: Places) -> str:
    """EFAULT comes where the call itself is allowed."""
    _libc.syscall(NUMBERS["io_uring_setup"], 1, None)
    return "allowed" if ctypes.get_errno() == EFAULT else ""


OTHERS: dict[str, Callable[[Places], str]] = {
    "a connection to GitLab": _connected,
    "a server": _listened,
    "a datagram": _send_datagram,
    "modes outside": lambda places: _change(_change_mode, places),
    "owners outside": lambda places: _change(_change_owner, places),
    "giving files away": lambda places: _change(_give_away, places),
    "times outside": lambda places: _change(_change_times, places),
    "attributes outside": lambda places: _change(_change_attribute, places),
    "a process that stays": _stay,
    "a user namespace": _enter_namespace,
    "System V memory": _share_memory,
    "an io_uring": _open_ring,
    "shared memory": lambda _places: _made_in("/dev/shm"),
    "reading <project>.tmp": _of_tmp,
    "reading .git/config": lambda places: _files(*_git_configs(places)),
    "reading HOME": lambda places: _files(f"{places.home}/.netrc"),
    "reading private files that no list names": lambda places: _files(f"{places.home}/diary"),
    "writing <project>.tmp": lambda places: _made_in(f"{places.checkout}.tmp"),
    "writing .git/config": lambda places: _any(
        lambda path: _opened(path, f"{places.checkout}/.git/config"), _git_configs(places)
    ),
    "writing HOME": lambda places: _made_in(places.home),
    "writing the shell's start files": lambda places: _any(
        _opened, [f"{places.home}/.bashrc", "/etc/profile", "/etc/bash.bashrc"]
    ),
    "writing programs": lambda _places: _any(_made_in, ["/usr/local/bin", "/usr/bin"]),
    "writing the installation": lambda places: _made_in(places.installation),
    "writing beside the checkout": lambda places: _made_in(Path(places.checkout).parent),
    "writing the results": lambda places: _made_in(*_results(places)),
    "reading the results": lambda places: _listed(*_results(places)),
    "an abstract socket": _abstract,
    "a socket in HOME": _in_home,
}
"""``the results`` are what the redactor has written: who reads them can ask it what is a secret."""
