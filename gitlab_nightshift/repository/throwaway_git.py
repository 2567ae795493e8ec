"""The throw-away ``.git``: as useful to an agent as the real one, but without secrets."""

import errno
import operator
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.repository.git import RepositoryPaths
from gitlab_nightshift.repository.git_formats import (
    copy_if_present,
    write_alternates,
    write_git_folder,
)
from gitlab_nightshift.repository.owners import OwnershipError
from gitlab_nightshift.repository.state_folder import StateFolder
from gitlab_nightshift.sandbox.bwrap import HIDDEN_OBJECTS
from gitlab_nightshift.sandbox.tiers import Mount
from gitlab_nightshift.sandbox.uid_tier import find_closed_folder, give
from gitlab_nightshift.system.openat import Owner, read_chunks

MARKER = "nightshift-cover"
OWNER_IGNORED = {"core.checkStat": "minimal", "core.trustctime": "false"}
"""Settings for a tree whose owner was changed after the index was written. Without them, git reads
every file again, as ctime and owner differ (git-config(1))."""
REMOTE = '[remote "origin"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
"""A remote without a URL. If all processes were killed, the runner fetches into this repository: it
sets the URL and includes its file of credentials if the remote exists, and otherwise assumes that
its template did (gitlab-runner, shells/abstract.go: writeRefspecFetchCmd)."""
_UNSHARED_PREFIXES = ("alternates", "tmp_")
"""Beginnings of names that are not shared: the throw-away has its own alternates, and git first
writes an object under a temporary name."""


@dataclass(frozen=True)
class ObjectSharing:
    """How a throw-away gets the objects. It borrows from the folders ``lenders``, some of which an
    agent sees at another path (``mounts``); the files in the folders ``linked`` are hard-linked."""

    lenders: tuple[Path, ...]
    linked: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()

    @property
    def readable(self) -> tuple[Path, ...]:
        """The object folders that an agent must be allowed to read."""
        mounted = [mount.target for mount in self.mounts]
        return tuple(path for path in self.lenders if path not in mounted)


def plan_object_sharing(
    state: StateFolder, current: RepositoryPaths, masked: RepositoryPaths
) -> ObjectSharing:
    """Plan how a throw-away gets the checkout's objects. ``current`` and ``masked`` are the paths
    of the repository's parts before and after ``.git`` is masked. Raises OwnershipError.

    Another user cannot enter the state folder, so the objects of a real ``.git`` in it are linked.
    """
    if state.mounted:
        return _plan_mounted_sharing(current, state.checkout / ".git")
    if state.user is None:
        return ObjectSharing(masked.objects)
    pairs = list(zip(current.objects, masked.objects, strict=True))
    lenders = tuple(path for path in masked.objects if not path.is_relative_to(state.folder))
    for path in lenders:
        if closed := find_closed_folder(path):
            raise OwnershipError(
                f"git objects in {path} are below {closed}, which only its owner may enter"
            )
    return ObjectSharing(lenders, tuple(path for path, moved in pairs if moved not in lenders))


def _plan_mounted_sharing(current: RepositoryPaths, git: Path) -> ObjectSharing:
    # The throw-away is mounted over .git, and hides the objects in it.
    hidden = [path for path in current.objects if path.is_relative_to(git)]
    mounted = {path: Path(HIDDEN_OBJECTS, str(number)) for number, path in enumerate(hidden)}
    mounts = tuple(Mount(path, target, writable=False) for path, target in mounted.items())
    return ObjectSharing(tuple(mounted.get(path, path) for path in current.objects), (), mounts)


def build_throwaway(
    folder: Path,
    current: RepositoryPaths,
    sharing: ObjectSharing,
    base_sha: str,
    config: Mapping[str, str],
) -> None:
    """Make the ``.git`` that an agent will see: the same commit, index and rules, but no remote
    URL and no credentials. ``current`` are the present paths of the real parts. Raises OSError."""
    settings = {"core.bare": "false", "core.logAllRefUpdates": "true", **config}
    write_git_folder(folder, settings, head=base_sha, object_format=current.object_format)
    (folder / MARKER).write_text("")
    with (folder / "config").open("a") as file:
        file.write(REMOTE)
    for objects in sharing.linked:
        share_objects(objects, folder / "objects")
    write_alternates(folder / "objects", sharing.lenders)
    copy_if_present(current.index, folder / "index")
    for shared_index in current.index.parent.glob("sharedindex.*"):
        copy_if_present(shared_index, folder / shared_index.name)
    copy_if_present(current.exclude, folder / "info/exclude")
    copy_if_present(current.attributes, folder / "info/attributes")
    if current.shallow:
        copy_if_present(current.shallow, folder / "shallow")


def copy_throwaway(template: Path, target: Path, user: Owner | None) -> Path:
    """Copy ``template`` to ``target``, and give it to ``user``, if any. Raises OSError."""
    for folder, _, names in os.walk(template):
        inner = target / Path(folder).relative_to(template)
        inner.mkdir()
        for name in names:
            _link_or_copy(Path(folder, name), inner / name)
    if user:
        give(target, user)
    return target


def is_fresh_copy(template: Path, target: Path, user: Owner | None) -> bool:
    """True if ``target`` is what ``copy_throwaway`` makes: names, kinds, bytes, modes, owners and
    attributes, and the time of an index. No process may change it meanwhile. Raises OSError."""
    owner = user or (os.geteuid(), os.getegid())
    old, new = template.lstat(), target.lstat()
    if old.st_nlink > 1 and stat.S_ISREG(old.st_mode):  # an object: the copy is one more link
        return os.path.samestat(old, new)
    if old.st_mode != new.st_mode or (new.st_uid, new.st_gid) != owner:
        return False
    if os.listxattr(target, follow_symlinks=False) != os.listxattr(template):
        return False
    if stat.S_ISDIR(old.st_mode):
        names = sorted(os.listdir(template))  # noqa: PTH208 - names alone
        same = names == sorted(os.listdir(target))  # noqa: PTH208
        return same and all(is_fresh_copy(template / n, target / n, user) for n in names)
    if "index" in template.name and old.st_mtime_ns != new.st_mtime_ns:
        return False
    return old.st_size == new.st_size and _has_same_bytes(template, target)


def _has_same_bytes(one: Path, other: Path) -> bool:
    """Compare two files of the same size in chunks: an index may have 100 MB."""
    with one.open("rb") as first, other.open("rb") as second:
        return all(map(operator.eq, read_chunks(first.fileno()), read_chunks(second.fileno())))


def _link_or_copy(source: Path, target: Path) -> None:
    """Link an object that is linked already, and copy any other file. Only an index keeps its
    times: git needs no others, and a broker may have to set each."""
    if source.stat().st_nlink > 1:
        os.link(source, target)
    elif "index" in source.name:
        shutil.copy2(source, target)
    else:
        shutil.copyfile(source, target)


def share_objects(source: Path, target: Path) -> None:
    """Hard-link the files of an object folder into another one, for another user to read. They keep
    their owner, so nobody else can change them. Raises OSError, also for a file that not everybody
    may read."""
    for folder, folders, names in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        inner.mkdir(parents=True, exist_ok=True)
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*links, *names):
            if not name.startswith(_UNSHARED_PREFIXES):
                _link_or_copy_object(Path(folder, name), inner / name)


def _link_or_copy_object(source: Path, target: Path) -> None:
    mode = source.lstat().st_mode
    if not stat.S_ISREG(mode) or not mode & stat.S_IROTH:
        raise PermissionError(errno.EACCES, "it is no file that everybody may read", str(source))
    if mode & (stat.S_IWGRP | stat.S_IWOTH):  # the other user could write to the real object
        shutil.copyfile(source, target)
    else:
        os.link(source, target)
