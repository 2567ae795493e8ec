"""A job as it runs on a machine, full of flags: what attacks are run against.

Needs nothing but the package's sandbox, so that any Python of the machine can make it.
"""

import contextlib
import ctypes
import fcntl
import os
import pty
import secrets
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS
from tests.attacks.places import Places, call, checked, libc, started_at
from tests.attacks.services import services

FILES = {
    "private_results": "results/result.json",
    "bead_log": "logs/01-analyze.out",
    "old_log": "logs/00-baseline.out",
    "project_tmp": "shop.tmp/.gitlab-runner.ext.conf",
    "netrc": "home/.netrc",
    "docker_config": "home/.docker/config.json",
    "git_credentials": "home/.git-credentials",
    "ssh_key": "home/.ssh/id_ed25519",
    "runner_config": "home/.gitlab-runner/config.toml",
    "file_variable": "shop.tmp/DEPLOY_KEY",
    "bashrc": "home/.bashrc",
    "code": "site-packages/gitlab_nightshift/cli.py",
    "crontab": "spool/cron/crontabs/job",
}
"""Secret or foreign files below the job's private folder; each holds a flag of its name."""
VICTIMS = (
    *("kill_victim", "stop_victim", "signal_everybody", "queue_signal", "pidfd_signal"),
    "signal_by_descriptor",
)
MORE_NUMBERS = {"name_to_handle_at": (303, 264), "setpriority": (141, 140)}
KEY_TYPE = b"user"
IPC_CREAT, IPC_RMID = 0o1000, 0
JOIN_SESSION_KEYRING, LINK, SET_TIMEOUT, PERSISTENT = 1, 8, 15, 22
SESSION, USER = -3, -4
KEYS_LIVE_S = 120


@dataclass(frozen=True)
class Flags:
    """All flags of one scene begin with the same word, which attacks do not know."""

    word: str

    def __call__(self, name: str) -> str:
        return f"{self.word}-{name}"


@contextlib.contextmanager
def scene(root: Path, flags: Flags, gateway: dict[str, Any]) -> Iterator[Places]:
    """Everything that an attack may look for; all of it is gone afterwards."""
    outside, public = root / "outside", root / "public"
    outside.mkdir(mode=0o700)
    public.mkdir(mode=0o755)
    (outside / "hits").mkdir()
    files = _planted(outside, public, flags)
    memory = ctypes.create_string_buffer(flags("memory").encode())
    descriptor = _flagged_descriptor(flags)
    own = os.getpid()
    os.chdir(outside)
    with contextlib.ExitStack() as stack:
        victims = {name: _victim(outside, name) for name in (*VICTIMS, "night")}
        stack.callback(_end, list(victims.values()))
        stack.enter_context(_telling(flags))
        stack.enter_context(_terminal())
        shared_memory = stack.enter_context(_shared_memory(flags))
        _keys(flags)
        serving = services(outside, public, flags, gateway["gateway"])
        ports, sockets, address = stack.enter_context(serving)
        job = [*_chain(own), *victims.values()]
        yield Places(
            checkout=str(root / "checkout"),
            scratch=str(root / "scratch"),
            home=str(outside / "home"),
            outside=str(outside),
            scene=own,
            public=str(public),
            job=[(pid, started_at(pid)) for pid in job],
            night=victims["night"],
            memory=ctypes.addressof(memory),
            descriptor=descriptor,
            files=files,
            handle=_handle(files["private_results"]),
            victims=victims,
            ports=ports,
            sockets=sockets,
            own_address=address,
            shared_memory=shared_memory,
            own_name=secrets.token_hex(8),
            numbers={**NUMBERS, **_more_numbers()},
            **gateway,
        )


def _more_numbers() -> dict[str, int]:
    machine = ("x86_64", "aarch64").index(os.uname().machine)
    return {name: numbers[machine] for name, numbers in MORE_NUMBERS.items()}


# --- files ----------------------------------------------------------------------------------------


def _planted(outside: Path, public: Path, flags: Flags) -> dict[str, str]:
    files = {name: outside / path for name, path in FILES.items()}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{flags(name)}\n")
        path.chmod(0o600)
    files["crontab"].with_name("spare").write_text("")
    (public / "file").write_text(flags("public_file"))
    (public / "file").chmod(0o644)
    _repository(outside / "git", flags)
    git = {f"git_{name}": outside / "git" / name for name in ("config", "logs/HEAD", "hooks")}
    named = {**files, **git, "git": outside / "git", "public_file": public / "file"}
    return {name.replace("/HEAD", ""): str(path) for name, path in named.items()}


def _repository(git: Path, flags: Flags) -> None:
    """The real repository, moved away: a remote with a token, a log, a packed object."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_DIR": str(git)}
    me = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.bare=true")
    url = f"https://oauth2:{flags('git_config')}@gitlab.example/a.git"
    tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    for args in (
        ("init", "-q", "--bare"),
        ("config", "remote.origin.url", url),
        ("config", "core.logAllRefUpdates", "always"),
        ("hash-object", "-t", "tree", "-w", "/dev/null"),
    ):
        subprocess.run(["git", *args], env=env, check=True, stdout=subprocess.DEVNULL)
    commit = ("commit-tree", tree, "-m", flags("git_object"))
    made = subprocess.run(["git", *me, *commit], env=env, check=True, capture_output=True)
    move = ("update-ref", "-m", flags("git_logs"), "HEAD", made.stdout.decode().strip())
    subprocess.run(["git", *me, *move], env=env, check=True)
    subprocess.run(["git", "repack", "-adq"], env=env, check=True)
    (git / "hooks").mkdir(exist_ok=True)


def _handle(path: str) -> str:
    """A file handle, which needs no path to be opened; "" where there are none."""
    buffer = ctypes.create_string_buffer(8 + 128)
    ctypes.memmove(buffer, (128).to_bytes(4, "little"), 4)
    mount = ctypes.c_int()
    try:
        checked(libc.name_to_handle_at(-100, path.encode(), buffer, ctypes.byref(mount), 0))
    except OSError:
        return ""
    return buffer.raw.hex()


# --- processes ------------------------------------------------------------------------------------


def _chain(pid: int) -> list[int]:
    found = list[int]()
    while pid > 0:
        found.append(pid)
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        pid = int(stat[1])
    return found


def _victim(outside: Path, name: str) -> int:
    """A copy of this process that does nothing, but holds all that this one holds."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    waited_for = signal.SIGURG if name == "signal_everybody" else signal.SIGWINCH
    signal.pthread_sigmask(signal.SIG_BLOCK, [waited_for, signal.SIGHUP])
    while os.getppid() == parent:
        if signal.sigtimedwait([waited_for], 1):
            with (outside / "hits" / name).open("a") as times:
                times.write(f"{time.monotonic()}\n")
    os._exit(0)


@contextlib.contextmanager
def _telling(flags: Flags) -> Iterator[None]:
    """A program that was told a password the wrong way."""
    command = ["/bin/sh", "-c", "read end", flags("command_line")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as program:
        yield
        program.kill()


def _end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _flagged_descriptor(flags: Flags) -> int:
    """An open file without a name, which a careless start would hand on."""
    fd = os.memfd_create("flag", 0)
    os.write(fd, flags("descriptor").encode())
    os.set_inheritable(fd, True)
    return fd


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """This session gets a terminal, as a job's shell may have one."""
    ours, theirs = pty.openpty()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    yield
    os.close(theirs)
    os.close(ours)


# --- what the kernel keeps ------------------------------------------------------------------------


@contextlib.contextmanager
def _shared_memory(flags: Flags) -> Iterator[int]:
    """A System V segment of the job's user; 0 where there are none."""
    key = 0x4E5A0000 | os.getpid() & 0xFFFF
    try:
        made = checked(libc.shmget(key, 4096, IPC_CREAT | 0o600))
    except OSError:
        yield 0
        return
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(made, None, 0), flags("shared_memory").encode() + b"\0", 64)
    yield key
    libc.shmctl(made, IPC_RMID, None)


def _keys(flags: Flags) -> None:
    """A key in the session, one of the user and one that stays; they end by themselves."""
    places = Places("", "", "", "", "", numbers=dict(NUMBERS))
    with contextlib.suppress(OSError):
        call(places, "keyctl", JOIN_SESSION_KEYRING, None)
        call(places, "keyctl", LINK, USER, SESSION)
        persistent = call(places, "keyctl", PERSISTENT, -1, SESSION)
        for name, ring in (("session", SESSION), ("user", USER), ("persistent", persistent)):
            value = flags(f"{name}_key").encode()
            known_as = f"{name}-{os.getpid()}".encode()
            key = call(places, "add_key", KEY_TYPE, known_as, value, len(value), ring)
            call(places, "keyctl", SET_TIMEOUT, key, KEYS_LIVE_S)
