"""Attacks on the kernel's own: keys, logs, namespaces, capabilities."""

import ctypes
import os
import struct
import subprocess

from tests.attacks.attack import ITSELF, attack_on
from tests.attacks.places import Places, call, checked, flag_in, libc, night, read


@attack_on(
    "secrets",
    "All are dropped, the bounding set is emptied, uid 0 means nothing, no_new_privs is set.",
    needs="an ordinary user has none",
    a_right=True,
)
def capabilities(places: Places) -> str | None:
    """Looks whether root's rights are still there, or can come back by starting a program."""
    lines = [line.split() for line in read("/proc/self/status").splitlines()]
    sets = (b"CapPrm:", b"CapEff:", b"CapAmb:")
    held = [b" ".join(words).decode() for words in lines if words and words[0] in sets]
    return ", ".join(line for line in held if int(line.split()[1], 16))


READ_ALL = 3


def _read() -> int:
    return checked(libc.klogctl(READ_ALL, ctypes.create_string_buffer(4096), 4096))


@attack_on(
    "secrets",
    "The filter refuses the call, the device is not allowed.",
    needs=lambda places: _read(),
    a_right=True,
)
def kernel_log(places: Places) -> str | None:
    """Reads it by syslog(2) and by /dev/kmsg."""
    try:
        return f"{_read()} bytes"
    except OSError:
        with open("/dev/kmsg", "rb") as log:  # noqa: PTH123
            return f"{len(log.readline())} bytes"


MAP_CREATE, ARRAY = 0, 2


@attack_on("secrets", "The filter refuses bpf.", needs=ITSELF, a_right=True)
def kernel_programs(places: Places) -> str | None:
    """Makes a BPF map, the first step to programs that read kernel memory."""
    wanted = ctypes.create_string_buffer(struct.pack("=IIII", ARRAY, 4, 4, 1), 120)
    return f"map {call(places, 'bpf', MAP_CREATE, wanted, 120)}"


LINK, SEARCH, READ, PERSISTENT = 8, 10, 11, 22
SESSION, OF_USER, OF_PROCESS = -3, -4, -2


def _read_key(places: Places, ring: int, name: str) -> str | None:
    named = f"{name}-{places.scene}".encode()
    key = call(places, "keyctl", SEARCH, ring, b"user", named, 0)
    buffer = ctypes.create_string_buffer(100)
    call(places, "keyctl", READ, key, buffer, 100)
    return flag_in(buffer.raw)


def _join_kept_keyring(places: Places) -> int:
    call(places, "keyctl", 0, OF_PROCESS, 1)
    return call(places, "keyctl", PERSISTENT, -1, OF_PROCESS)


@attack_on(
    "secrets",
    "The launcher joins a new keyring, and the filter refuses keyctl.",
    needs=lambda places: call(places, "keyctl", 0, SESSION, 0),
)
def key_of_the_session(places: Places) -> str | None:
    """Searches the keyring that the job's shell shares with all it starts."""
    return _read_key(places, SESSION, "session")


@attack_on(
    "secrets",
    "The filter refuses keyctl; another user has another keyring.",
    needs=lambda places: call(places, "keyctl", 0, OF_USER, 1),
)
def key_of_the_user(places: Places) -> str | None:
    """Links the keyring of the user, which all sessions of the user share, and searches it."""
    call(places, "keyctl", 0, OF_PROCESS, 1)
    call(places, "keyctl", LINK, OF_USER, OF_PROCESS)
    return _read_key(places, OF_PROCESS, "user")


@attack_on(
    "secrets",
    "The filter refuses keyctl; another user has another keyring.",
    needs=_join_kept_keyring,
)
def key_that_stays(places: Places) -> str | None:
    """Asks for the keyring that outlives sessions, and searches it."""
    return _read_key(places, _join_kept_keyring(places), "persistent")


NEW_USER, CHILD_SIGNAL = 0x10000000, 17


@attack_on("secrets", "The filter says that there is no clone3.", needs=ITSELF, a_right=True)
def namespace_by_clone(places: Places) -> str | None:
    """Starts a process with new namespaces; the flags stand in memory, where no filter looks."""
    arguments = (ctypes.c_uint64 * 8)(NEW_USER, 0, 0, 0, CHILD_SIGNAL)
    pid = call(places, "clone3", ctypes.byref(arguments), ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return f"process {pid} has its own users"


ANY = 0


@attack_on(
    "secrets",
    "Opening them asks for the right to trace, and the filter refuses setns.",
    needs=lambda places: checked(libc.setns(os.open("/proc/self/ns/uts", os.O_RDONLY), ANY)),
    a_right=True,
)
def namespace_joined(places: Places) -> str | None:
    """Enters the namespaces of the process that holds the secrets by setns."""
    there = os.open(f"/proc/{night(places)}/ns/uts", os.O_RDONLY)
    return f"entered: {checked(libc.setns(there, ANY))}"


EXEC_FORMAT, BAD_ADDRESS, INVALID = 8, 14, 22


@attack_on(
    "secrets",
    "The filter refuses the calls, and the capabilities are gone.",
    needs="this kernel takes neither",
    a_right=True,
)
def new_kernel(places: Places) -> str | None:
    """Asks for kexec and for loading a module (with nothing to load)."""
    for name, arguments in (("init_module", (b"", 0, b"")), ("kexec_load", (0, 0, None, 0))):
        try:
            call(places, name, *arguments)
        except OSError as error:
            if error.errno not in (EXEC_FORMAT, BAD_ADDRESS, INVALID):
                continue
        return f"{name} is there"
    return None


USER_MODE_ONLY = 1


@attack_on("secrets", "The filter refuses the call.", needs=ITSELF, a_right=True)
def page_faults(places: Places) -> str | None:
    """Takes over its own page faults: exploits of the kernel stop it at will with that."""
    return f"descriptor {call(places, 'userfaultfd', USER_MODE_ONLY)}"


SOFTWARE, TASK_CLOCK = 1, 1


@attack_on("secrets", "The filter refuses the call.", needs=ITSELF, a_right=True)
def performance_events(places: Places) -> str | None:
    """Counts what happens on the machine: a way to listen to other processes."""
    wanted = ctypes.create_string_buffer(struct.pack("=IIQ", SOFTWARE, 112, TASK_CLOCK), 112)
    return f"counter {call(places, 'perf_event_open', wanted, 0, -1, -1, 0)}"


NO_RANDOMIZE = 0x0040000


@attack_on("secrets", "The filter lets the default through, and asking.", a_right=True)
def personality(places: Places) -> str | None:
    """Switches off address randomization for what it starts."""
    return f"was {checked(libc.personality(NO_RANDOMIZE))}"


USER = 1001


def _capabilities(pid: int) -> int:
    lines = read(f"/proc/{pid}/status").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(b"CapEff")), 16)


@attack_on(
    "secrets",
    "no_new_privs: no program gains anything by being started.",
    needs="no setuid program here",
    a_right=True,
)
def setuid_program(places: Places) -> str | None:
    """Starts su as an ordinary user: while it waits for a password it is root."""
    if os.geteuid() == 0 and _capabilities(os.getpid()):
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/su", "root", "-c", "true"], stdin=pipe, stderr=pipe) as su:
        assert su.stdin and su.stderr
        su.stderr.read(1)  # it asks for a password
        try:
            held = _capabilities(su.pid)
        except OSError:
            held = 0
        su.stdin.close()
    return f"capabilities {held:x}" if held else None
