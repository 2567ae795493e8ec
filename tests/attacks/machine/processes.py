"""Attacks on what other processes hold."""

import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from tests.attacks.attack import ITSELF, attack_on
from tests.attacks.places import (
    Places,
    above,
    call,
    checked,
    everyone,
    flag_in,
    job,
    libc,
    night,
    read,
)


@attack_on(
    "secrets", "Landlock refuses to look into processes outside; in a namespace they are not there."
)
def ancestors_environment(places: Places) -> str | None:
    """Opens /proc/P/environ of the job's shell and of everything above it, up to PID 1."""
    found = []
    for pid in above(places)[1:]:
        try:
            found.append(flag_in(read(f"/proc/{pid}/environ")))
        except OSError:
            continue
    return " ".join(filter(None, found))


@attack_on(
    "secrets",
    "In a namespace they are not there. This program never puts a secret into one.",
    open_in={
        "uid": "command lines of other processes",
        "landlock": "command lines of other processes",
    },
)
def command_lines(places: Places) -> str | None:
    """Reads /proc/P/cmdline of every process: some programs are told a password there."""
    found = set()
    for pid in everyone():
        try:
            found.add(flag_in(read(f"/proc/{pid}/cmdline")))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))


@attack_on("secrets", "Following such a link asks for the right to trace.")
def descriptor_by_proc(places: Places) -> str | None:
    """Opens every /proc/P/fd/N of the job, files without a name among them."""
    found = set()
    for pid in {*job(places), *above(places)}:
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                target = str(entry.readlink())
                if target.startswith(("/memfd", places.outside)):
                    found.add(flag_in(read(entry)))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))


@attack_on("secrets", "The launcher closes everything beyond 2.")
def descriptor_inherited(places: Places) -> str | None:
    """Reads every descriptor that it was born with."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        if entry.exists() and entry.is_file() and int(entry.name) > 2:
            found.append(flag_in(os.pread(int(entry.name), 100, 0)) or flag_in(read(entry)))
    return " ".join(filter(None, found))


@attack_on(
    "secrets", "The launcher refuses a socket or a folder as 0 to 2; the night shift gives pipes."
)
def descriptor_standard(places: Places) -> str | None:
    """Uses descriptor 0 as a socket that somebody has left connected."""
    if not any(stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in (0, 1, 2)):
        return None
    with socket.socket(fileno=os.dup(0)) as found:
        return flag_in(found.recv(100, socket.MSG_PEEK))


@attack_on(
    "secrets",
    "The filter does not let the call through at all.",
    needs=lambda places: os.close(call(places, "pidfd_getfd", os.pidfd_open(os.getpid()), 1, 0)),
)
def descriptor_taken(places: Places) -> str | None:
    """Takes an open file of another process, which has no name any more."""
    taken = call(places, "pidfd_getfd", os.pidfd_open(night(places)), places.descriptor, 0)
    return flag_in(os.pread(taken, 100, 0))


@attack_on(
    "secrets", "Landlock refuses to look into processes outside; in a namespace they are not there."
)
def everyones_environment(places: Places) -> str | None:
    """Walks through /proc and opens each environ: siblings and other jobs as well."""
    found = set()
    for pid in everyone():
        try:
            found.add(flag_in(read(f"/proc/{pid}/environ")))
        except OSError:
            continue
    return " ".join(sorted(filter(None, found)))


@attack_on("secrets", "The filter does not let the call through at all.")
def memory_by_call(places: Places) -> str | None:
    """Copies the token out of another process by a system call, without any file."""
    buffer = ctypes.create_string_buffer(64)
    ours = struct.pack("=QQ", ctypes.addressof(buffer), 64)
    theirs = struct.pack("=QQ", places.memory, 64)
    call(places, "process_vm_readv", night(places), ours, 1, theirs, 1, 0)
    return flag_in(buffer.raw)


SEIZE, INTERRUPT, PEEK, DETACH = 0x4206, 0x4207, 2, 17


@attack_on("secrets", "The filter does not let the call through at all.")
def memory_by_tracing(places: Places) -> str | None:
    """Attaches to the process that holds a token and peeks at it word by word."""
    pid = night(places)

    def trace(request: int, address: int = 0) -> int:
        nothing = ctypes.c_void_p(0)
        return int(libc.ptrace(request, pid, ctypes.c_void_p(address), nothing))

    checked(trace(SEIZE))
    trace(INTERRUPT)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    words = [trace(PEEK, places.memory + 8 * n) & (2**64 - 1) for n in range(8)]
    trace(DETACH)
    return flag_in(struct.pack("=8Q", *words))


@attack_on(
    "secrets", "Opening it asks for the right to trace, which Landlock and other users lack."
)
def memory_file(places: Places) -> str | None:
    """Opens the memory of the process that holds a token and reads it at its address."""
    with open(f"/proc/{night(places)}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        memory.seek(places.memory)
        return flag_in(memory.read(64))


@attack_on("secrets", "Neither maps nor mem of a process outside can be opened.")
def memory_scan(places: Places) -> str | None:
    """Takes the places of all data from /proc/P/maps and searches them."""
    pid = night(places)
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()  # one read gives a page of them
    data = [line.split() for line in lines if " rw-p " in line]
    spans = [words[0].split("-") for words in data if words[4] == "0"]
    found = set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for start, end in spans:
            memory.seek(int(start, 16))
            found.add(flag_in(memory.read(int(end, 16) - int(start, 16))))
    return " ".join(sorted(filter(None, found)))


@attack_on("secrets", "The environment of every child is built from an allowlist.")
def own_environment(places: Places) -> str | None:
    """Reads what it was started with."""
    return flag_in(read("/proc/self/environ")) or flag_in(read(f"/proc/{places.runner}/environ"))


@attack_on(
    "secrets", "The parent is a monitor that cannot be dumped, or the first process of a namespace."
)
def parent_environment(places: Places) -> str | None:
    """Opens /proc/PARENT/environ, which stays as it was when the program started."""
    return flag_in(read(f"/proc/{above(places)[0]}/environ"))


@attack_on(
    "secrets",
    "Following the link asks for the right to trace; the folder behind it is not allowed.",
)
def proc_cwd(places: Places) -> str | None:
    """Opens /proc/P/cwd/FILE: no path above it needs to be passed."""
    return flag_in(read(f"/proc/{night(places)}/cwd/results/result.json"))


@attack_on(
    "secrets", "Following the link asks for the right to trace; the path behind it is not allowed."
)
def proc_root(places: Places) -> str | None:
    """Opens /proc/P/root/PATH, which names the file system as the job sees it."""
    found = []
    for pid in job(places):
        try:
            found.append(flag_in(read(f"/proc/{pid}/root{places.files['netrc']}")))
        except OSError:
            continue
    return " ".join(filter(None, found))


CORE = 4


@attack_on("secrets", "The filter lets prlimit through for oneself alone.", a_right=True)
def process_state(places: Places) -> str | None:
    """Sets the core file limit of the process that holds the secrets: a crash would spill them."""
    pid = night(places)
    old = ctypes.create_string_buffer(16)
    call(places, "prlimit64", pid, CORE, None, old)
    soft, hard = struct.unpack("=QQ", old.raw)
    call(places, "prlimit64", pid, CORE, struct.pack("=QQ", hard, hard), None)
    return f"{os.getpid()} may set the limits of {pid}, before {soft}"


@attack_on(
    "secrets",
    "Another IPC namespace; elsewhere the filter knows no System V IPC.",
    needs=lambda places: checked(libc.shmget(0, 4096, 0o600)),
)
def shared_memory(places: Places) -> str | None:
    """Attaches the segment of another program of the same user by its key."""
    found = checked(libc.shmget(places.shared_memory, 4096, 0))
    libc.shmat.restype = ctypes.c_void_p
    return flag_in(ctypes.string_at(libc.shmat(found, None, 0), 64))


TYPE_CHARACTER = 0x5412


@attack_on(
    "secrets",
    "A session of its own has no terminal; the filter refuses the request.",
    needs=ITSELF,
    a_right=True,
)
def terminal(places: Places) -> str | None:
    """Types into the terminal that the job's shell reads (TIOCSTI)."""
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), TYPE_CHARACTER, b"x")
    return "typed"


@attack_on("secrets", "The kernel asks the same question for a thread as for its process.")
def thread_environment(places: Places) -> str | None:
    """Opens /proc/P/task/T/environ instead of /proc/P/environ."""
    threads = Path(f"/proc/{night(places)}/task").iterdir()
    return flag_in(b"".join(read(thread / "environ") for thread in threads))
