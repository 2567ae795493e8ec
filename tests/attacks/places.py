"""What an attack knows of the machine, and what many attacks need. Standard library only: this runs
inside the sandbox.

A planted secret is a flag: a word that begins with ``MARK`` and goes on with what only the harness
knows. Whoever returns one has got through.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

MARK = "nightflag"
_FLAG = re.compile(MARK.encode() + rb"-[0-9a-f]{16}-[a-z0-9_]+")
ENOSYS = 38
LIVING_S = 600.0
LONG_S = 60.0
"""Seconds to wait for what is meant to come: a busy machine takes its time."""
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.ptrace.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p


@dataclass(frozen=True)
class Places:
    """Where everything is. Paths are absolute; ``outside`` is the job's private folder, ``public``
    one that everybody may enter; ``job`` are the processes of the job with their start times;
    ``own_name`` is no other scene's; ``arrives_s`` is how long to wait for somebody else's deed,
    ``ends_s`` for a process to end."""

    checkout: str
    scratch: str
    home: str
    outside: str
    public: str
    runner: int = 0
    scene: int = 0
    job: list[tuple[int, int]] = field(default_factory=list)
    night: int = 0
    memory: int = 0
    descriptor: int = -1
    files: dict[str, str] = field(default_factory=dict)
    handle: str = ""
    victims: dict[str, int] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    sockets: dict[str, str] = field(default_factory=dict)
    own_address: str = ""
    shared_memory: int = 0
    own_name: str = ""
    gateway: int = 0
    placeholder: str = ""
    old_placeholder: str = ""
    model: str = ""
    too_large: int = 2_000_000
    numbers: dict[str, int] = field(default_factory=dict)
    arrives_s: float = LONG_S
    ends_s: float = 0.0

    @classmethod
    def load(cls, path: str | Path) -> "Places":
        """From JSON."""
        return cls(**json.loads(Path(path).read_bytes()))


# --- files ----------------------------------------------------------------------------------------


def flag_in(data: bytes | str) -> str | None:
    """The flags in some data, None where there is none."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return " ".join(sorted({found.decode() for found in _FLAG.findall(raw)})) or None


def read(path: str | Path, size: int = 1 << 20) -> bytes:
    """The beginning of a file. Raises OSError."""
    with Path(path).open("rb", buffering=0) as file:
        return file.read(size) or b""


def plant(path: str | Path) -> str:
    """Put a word into a file; what came of it is judged outside. Raises OSError."""
    with Path(path).open("a") as file:
        file.write("was here\n")
    return f"{path} is written"


def planted(path: str | Path) -> bool:
    """For ``seen``: the word is there."""
    with contextlib.suppress(OSError):
        return b"was here" in Path(path).read_bytes()
    return False


def hit(places: Places, name: str) -> bool:
    """For ``seen``: a service of the machine has noted that it was reached."""
    note = Path(places.outside, "hits", name)
    return waited_for(note.exists, time.monotonic() + places.arrives_s)


def waited_for(happened: Callable[[], bool], until: float) -> bool:
    """Whether it happens until then; it is asked once at least."""
    while not (done := happened()) and time.monotonic() < until:
        time.sleep(0.01)
    return done


# --- processes ------------------------------------------------------------------------------------


def above(places: Places) -> list[int]:
    """The ancestors of whoever runs the attacks, the nearest first, as far as they can be seen."""
    found, pid = list[int](), places.runner
    with contextlib.suppress(OSError):
        while (pid := int(_stat(pid)[1])) > 0:
            found.append(pid)
    return found


def job(places: Places) -> list[int]:
    """The processes of the job that can be seen here: numbers alone may be others'."""
    return [pid for pid, started in places.job if _is_it(pid, started)]


def night(places: Places) -> int:
    """The process that holds the secrets, if it can be seen here. Raises ProcessLookupError."""
    if places.night not in job(places):
        raise ProcessLookupError(3, "the night shift cannot be seen")
    return places.night


def victim(places: Places, name: str) -> int:
    """A process that is there to be hit, if it can be seen here. Raises ProcessLookupError."""
    pid = places.victims[name]
    if pid not in job(places):
        raise ProcessLookupError(3, "the victim cannot be seen")
    return pid


def everyone() -> list[int]:
    """All processes that can be seen."""
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def started_at(pid: int) -> int:
    """The start time, in ticks. Raises OSError."""
    return int(_stat(pid)[19])


def state(pid: int) -> str:
    """``S``, ``T``, ``Z``, …; ``X`` where there is no such process."""
    try:
        return _stat(pid)[0].decode()
    except OSError:
        return "X"


def _stat(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def _is_it(pid: int, started: int) -> bool:
    with contextlib.suppress(OSError):
        return started_at(pid) == started
    return False


def live_on(places: Places, name: str) -> NoReturn:
    """Be the process that outlives its bead, for a while; never returns."""
    hold(places, name)
    time.sleep(LIVING_S)
    os._exit(0)


def hold(places: Places, name: str) -> None:
    """Hold a lock until the end, by which a process is known to be alive, and found."""
    fd = os.open(f"{places.scratch}/{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, b"%d" % os.getpid())


def begun(places: Places, name: str) -> str:
    """Wait until that process is there."""
    lock = Path(places.scratch, f"{name}.lock")
    waited_for(lambda: lock.exists() and bool(lock.read_bytes()), time.monotonic() + LONG_S)
    return f"{name} is left behind"


def lives(places: Places, name: str) -> bool:
    """For ``seen``: it is alive. The kernel takes a moment to end a namespace."""
    lock = Path(places.scratch, f"{name}.lock")
    return not waited_for(lambda: not _held(lock), time.monotonic() + places.ends_s)


def _held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


# --- the kernel -----------------------------------------------------------------------------------


def checked(result: int) -> int:
    """A C function's result. Raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def call(places: Places, name: str, *arguments: Any) -> int:
    """A system call by its name; numbers are passed whole. Raises OSError."""
    if name not in places.numbers:
        raise OSError(ENOSYS, f"{name} is not known on this machine")
    wide = [ctypes.c_ulong(a & (2**64 - 1)) if isinstance(a, int) else a for a in arguments]
    return checked(libc.syscall(ctypes.c_long(places.numbers[name]), *wide))


# --- sockets --------------------------------------------------------------------------------------


def heard(connection: socket.socket, say: bytes = b"") -> str | None:
    """The flag that a service answers with, on a connection."""
    with connection:
        connection.settimeout(LONG_S)
        with contextlib.suppress(BrokenPipeError):  # it has answered before it was asked
            connection.sendall(say)
        data = b""
        with contextlib.suppress(TimeoutError):
            while part := connection.recv(65536):
                data += part
                if flag_in(data):
                    break
    return flag_in(data)


def reach(host: str, port: int, family: int = socket.AF_INET) -> str | None:
    """Connect by TCP and listen. Raises OSError."""
    tcp = socket.socket(family, socket.SOCK_STREAM)
    tcp.settimeout(LONG_S)
    tcp.connect((host, port))
    return heard(tcp)


def reach_unix(address: str | bytes, say: bytes = b"") -> str | None:
    """Connect to a UNIX socket and listen. Raises OSError."""
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.connect(address)
    return heard(unix, say)


def request(
    places: Places,
    target: str = "/v1/messages",
    method: str = "POST",
    body: Any = None,
    **more: str,
) -> str | None:
    """Ask the gateway; the flag in the answer is the model endpoint's."""
    said = {"model": places.model, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    raw = body if isinstance(body, bytes) else json.dumps({**said, **(body or {})}).encode()
    key = {"x-api-key": places.placeholder, "host": f"127.0.0.1:{places.gateway}"}
    fixed = {"content-type": "application/json", "content-length": str(len(raw))}
    headers = {**key, **fixed, **{name.replace("_", "-"): value for name, value in more.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    way = socket.create_connection(("127.0.0.1", places.gateway), LONG_S)
    return heard(
        way, f"{method} {target} HTTP/1.1\r\n{head}connection: close\r\n\r\n".encode() + raw
    )
