"""The paths on this machine that work may write, and those that are hidden from it."""

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.git_formats import list_git_folders, list_object_folders
from gitlab_nightshift.repository.shown_config import read_visible_config
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox.confinement import ConfinementPaths
from gitlab_nightshift.sandbox.system_paths import HOME_FILES, SYSTEM_SECRETS
from gitlab_nightshift.sandbox.visible_home import find_hidden_home, list_home_needs
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import path_exists, within
from gitlab_nightshift.system.processes import list_ancestors

# The user's next shell runs these files: work must not write them.
START_FILES = (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv")
SYSTEM_START_FILES = ("/etc/profile", "/etc/bash.bashrc", "/etc/environment", "/etc/zsh/zshenv")
# Files may vanish from these at any time, and bwrap cannot mount over a missing path.
_TEMPORARY_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/proc"))  # noqa: S108
_GIT_FILES = ("logs", "config.worktree", "credentials")


@contextlib.contextmanager
def find_confinement_paths(
    env: Mapping[str, str],
    run_folder: RunFolder,
    writable: Collection[Path],
    state_folder: Path | None = None,
    readable: Collection[Path] = (),
    opened: Collection[Path] = (),
) -> Iterator[ConfinementPaths]:
    """The paths that confine work in a checkout, whose ``.git`` may be moved to ``state_folder``.
    Work may also read the paths ``readable``, and in HOME those ``opened``. During the block, a
    socket listens for work's attempt to connect to it, which must fail."""
    checkout, home = run_folder.checkout.resolve(), Path(env.get("HOME") or "/")
    git, secret_files = checkout / ".git", _list_secret_files(checkout, home)
    hidden = [*secret_files, run_folder.private, *_find_sockets(env, home)]
    substitutes: tuple[tuple[str, str], ...] = ()
    if git.is_dir() and not git.is_symlink():
        # A submodule's config may hold a URL with a credential, like the checkout's own.
        hidden += [*(git / name for name in _GIT_FILES), *git.glob("modules/**/config")]
        substitutes = ((str(git / "config"), str(_write_shown_config(env, run_folder))),)
    hidden_home = find_hidden_home(env, map(str, writable))
    needed = [*opened, *([state_folder.parent] if state_folder else [])]
    paths = ConfinementPaths(
        writable=_resolve_existing(writable),
        hidden=_resolve_existing(hidden),
        substitutes=substitutes,
        git=str(git),
        moved_git=str(state_folder or ""),
        git_secrets=tuple(str((state_folder or git) / name) for name in ("config", *_GIT_FILES)),
        probes={},
        readable=_resolve_existing(readable),
        search_path=build_search_path(env, checkout),
        home=hidden_home,
        opened=_list_opened(env, run_folder, hidden_home, needed),
    )
    with _open_probe_socket() as name:
        yield replace(paths, probes=_build_probes(paths, secret_files, home, run_folder, name))


def _list_secret_files(checkout: Path, home: Path) -> list[Path]:
    # GitLab Runner writes the job's file variables into <checkout>.tmp (job/job_secrets.py).
    runner_files = checkout.with_name(f"{checkout.name}.tmp")
    return [runner_files, *(home / name for name in HOME_FILES), *map(Path, SYSTEM_SECRETS)]


def _list_opened(
    env: Mapping[str, str], run_folder: RunFolder, home: str, also: Iterable[Path]
) -> tuple[str, ...]:
    """The paths below HOME that work needs: the checkout; git's objects, which may be in another
    repository; ``also``; and those of :func:`list_home_needs`."""
    checkout = run_folder.checkout.resolve()
    folders = (checkout / ".git", *list_git_folders(checkout))
    objects = [path for top in folders for path in list_object_folders(top / "objects")]
    needed = [checkout, *folders, *objects, run_folder.private.parent, *also]
    return list_home_needs(env, build_search_path(env, checkout), home, checkout, needed)


def _find_sockets(env: Mapping[str, str], home: Path) -> list[Path]:
    """The socket files that a process listens on (ssh-agent, Docker), from ``/proc/net/unix``. They
    must be hidden: a read-only mount does not prevent connections.

    In temporary folders, only those below HOME or named by a variable are included: others may
    vanish before they are hidden, and the start would fail.
    """
    values, sockets = "\n".join(env.values()), []
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            # The path, the last column, may have spaces; abstract names begin with @ (unix(7)).
            path = Path(f"/{line.partition(' /')[2]}")
            is_in_home = home.name != "" and home in path.parents
            is_temporary = any(folder in path.parents for folder in _TEMPORARY_FOLDERS)
            is_included = is_in_home or not is_temporary or str(path) in values
            if is_included and path_exists(path) and path.is_socket():
                sockets.append(path)
    return sockets


def _resolve_existing(paths: Iterable[Path]) -> tuple[str, ...]:
    """Those of the paths that exist, with symbolic links resolved."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path_exists(path)))


def _write_shown_config(env: Mapping[str, str], run_folder: RunFolder) -> Path:
    git = build_isolated_git(
        run_folder.private / "shown-git", build_search_path(env, run_folder.checkout)
    )
    file = run_folder.private / "git-config"
    file.write_text(read_visible_config(git, run_folder.checkout))
    return file


@contextlib.contextmanager
def _open_probe_socket() -> Iterator[str]:
    """Listen on an abstract socket, which file permissions do not protect. Yields its name."""
    name = f"nightshift-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        yield name


def _build_probes(
    paths: ConfinementPaths, secret_files: list[Path], home: Path, run_folder: RunFolder, name: str
) -> dict[str, Any]:
    """What ``sandbox/self_confinement.py`` tries to access: files by name, processes by pid and
    start time, the socket by its ``name``."""
    checkout = run_folder.checkout.resolve()
    installed = {path for path in map(Path, sys.path) if path_exists(path) and path.is_dir()}
    beside_checkout = {run_folder.checkout.parent} - {run_folder.private}
    unreadable = filter(path_exists, (*secret_files, run_folder.results, run_folder.logs))
    all_start_files = [*(home / file for file in START_FILES), *map(Path, SYSTEM_START_FILES)]
    start_files = [str(path) for path in all_start_files if path_exists(path)]
    hidden_start_files = [path for path in start_files if paths.home and within(path, paths.home)]
    moved = paths.git_secrets[:1] if paths.moved_git else ()
    unwritable = sorted(map(str, {home, *beside_checkout, run_folder.results, *installed}))
    return {
        "read": [*map(str, unreadable), *moved, *hidden_start_files],
        "write": [*unwritable, *({str(checkout)} - set(paths.writable))],
        "change": start_files,
        "same": _identify_file(checkout / ".git/config"),
        "processes": list_ancestors(),
        "socket": name,
    }


def _identify_file(file: Path) -> list[tuple[str, int, int]]:
    """A file's name, device and inode, if it exists: work must see another file of that name."""
    with contextlib.suppress(OSError):
        status = file.stat()
        return [(str(file), status.st_dev, status.st_ino)]
    return []
