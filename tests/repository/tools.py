"""Git as a person runs it, files to test with, and listings of whole trees."""

import contextlib
import itertools
import os
import signal
import stat
import subprocess
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

Listing = dict[bytes, tuple[object, ...]]
_clock = itertools.count(1_700_000_000, 60)
ODD_NAME = os.fsdecode(b"odd \xff\nname")
IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


def git(
    cwd: Path, *args: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> str:
    """Run git as a person would; a failure fails the test."""
    done = subprocess.run(
        ["git", *IDENTITY, *args],
        check=False,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "init.defaultBranch",
            "GIT_CONFIG_VALUE_0": "main",
            "GIT_CONFIG_KEY_1": "protocol.file.allow",
            "GIT_CONFIG_VALUE_1": "always",
            **(env or {}),
        },
    )
    assert done.returncode == 0, f"git {args}: {done.stderr!r}"
    return os.fsdecode(done.stdout).strip()


def write(root: Path, path: str, data: str | bytes = "", mode: int | None = None) -> Path:
    """Make a file and its folders."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    if mode is not None:
        file.chmod(mode)
    return file


def gone(root: Path, path: str) -> Path:
    """Unlink a file."""
    (root / path).unlink()
    return root / path


def link(root: Path, path: str, target: str | Path) -> Path:
    """Make a symbolic link, or replace a file by one."""
    file = write(root, path)
    file.unlink()
    file.symlink_to(target)
    return file


def fifo(root: Path, path: str) -> Path:
    """Make a FIFO, or replace a file by one."""
    file = write(root, path)
    file.unlink()
    os.mkfifo(file)
    return file


def commit(root: Path, message: str = "a change") -> str:
    """Commit everything and return the commit's id."""
    git(root, "add", "-A")
    date = f"{next(_clock)} +0000"
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    git(root, "commit", "-q", "--allow-empty", "-m", message, env=dates)
    return git(root, "rev-parse", "HEAD")


def repository(root: Path, files: Mapping[str, str | bytes]) -> str:
    """A new repository with one commit of ``files``; its id."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "--template=")
    write(root, ".git/info/exclude")
    for path, data in files.items():
        write(root, path, data)
    return commit(root, "first")


def fork(function: Callable[[], object]) -> int:
    """The pid of a copy of this process that calls a function, and then ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: none is needed
        pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)
    return pid


def die(*_: object) -> NoReturn:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def wait_end(pid: int) -> int:
    """The exit status of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def listing(root: Path, *, git_too: bool = False) -> Listing:
    """Everything below ``root``: kinds, modes, times, link targets and bytes.

    Folders that nobody may read are opened meanwhile.
    """
    found: Listing = {}
    _list(root, b"", found, git_too)
    return found


def _list(folder: Path, prefix: bytes, found: Listing, git_too: bool) -> None:
    mode = stat.S_IMODE(folder.lstat().st_mode)
    found[prefix] = ("folder", mode, b"", folder.lstat().st_mtime_ns)
    with _opened(folder, mode, 0o700):
        for path in sorted(folder.iterdir()):
            shown = prefix + os.fsencode(path.name)
            status = path.lstat()
            if shown == b".git" and not git_too:
                continue
            if stat.S_ISDIR(status.st_mode):
                _list(path, shown + b"/", found, git_too)
            else:
                found[shown] = (*_content(path, status.st_mode), status.st_mtime_ns)


def _content(path: Path, mode: int) -> tuple[object, ...]:
    if stat.S_ISLNK(mode):
        return "link", 0, str(path.readlink())
    if not stat.S_ISREG(mode):
        return "other", mode, b""
    with _opened(path, stat.S_IMODE(mode), 0o400):
        return "file", mode, path.read_bytes()


@contextlib.contextmanager
def _opened(path: Path, mode: int, needed: int) -> Iterator[None]:
    if mode & needed != needed:
        path.chmod(needed)
    yield
    if mode & needed != needed:
        path.chmod(mode)


def remove_all(root: Path) -> None:
    """Make a tree removable for pytest, which cannot enter folders without rights."""
    subprocess.run(["chmod", "-R", "u+rwx", str(root)], check=False)
