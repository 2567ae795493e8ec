"""The throw-away ``.git``: as useful to an agent as the real one, and without anything secret."""

import errno
import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.host.aside import Aside
from gitlab_nightshift.host.git import Place
from gitlab_nightshift.host.owners import OwnersRefused
from gitlab_nightshift.host.repository import borrow, copy_if_there
from gitlab_nightshift.host.sandbox.bwrap import OBJECTS
from gitlab_nightshift.host.sandbox.ownership import Owner, give
from gitlab_nightshift.host.sandbox.records import Mount
from gitlab_nightshift.host.sandbox.uid import closed_folder

MARKER = "nightshift-cover"
FRESH_ENOUGH = {"core.checkStat": "minimal", "core.trustctime": "false"}
"""Settings where the tree has changed its owner since the index was written: without them git would
read every file again."""
REMOTE = '[remote "origin"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
"""A remote without a URL. After a kill of everything the runner fetches into this. Where there
is a remote, it sets the URL and includes its file of credentials; where there is none, it trusts
that its template has done that (gitlab-runner, shells/abstract.go: writeRefspecFetchCmd)."""
_NOT_SHARED = ("alternates", "tmp_")


@dataclass(frozen=True)
class Sharing:
    """How a throw-away gets the objects: it borrows from the folders ``lenders``, of which an agent
    sees those of ``mounts`` at another place; the folders ``linked`` are linked into it."""

    lenders: tuple[Path, ...]
    linked: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()

    @property
    def readable(self) -> tuple[Path, ...]:
        """What an agent has to be let read."""
        mounted = [mount.target for mount in self.mounts]
        return tuple(path for path in self.lenders if path not in mounted)


def share_objects(aside: Aside, now: Place, later: Place) -> Sharing:
    """How this checkout's objects are shared; ``now`` and ``later`` are where the parts of the
    repository are before and after the cover. Raises OwnersRefused.

    Another user cannot pass the folder in which the real ``.git`` is then.
    """
    if aside.mounted:
        return _mounted(now, aside.checkout / ".git")
    if aside.user is None:
        return Sharing(later.objects)
    pairs = list(zip(now.objects, later.objects, strict=True))
    lenders = tuple(path for path in later.objects if not path.is_relative_to(aside.folder))
    for path in lenders:
        if closed := closed_folder(path):
            raise OwnersRefused(f"git objects in {path} lie behind {closed}, which is its owner's")
    return Sharing(lenders, tuple(path for path, moved in pairs if moved not in lenders))


def _mounted(now: Place, git: Path) -> Sharing:
    hidden = [path for path in now.objects if path.is_relative_to(git)]
    seen = {path: Path(OBJECTS, str(number)) for number, path in enumerate(hidden)}
    mounts = tuple(Mount(path, target, writable=False) for path, target in seen.items())
    return Sharing(tuple(seen.get(path, path) for path in now.objects), (), mounts)


def build_throwaway(
    folder: Path, now: Place, sharing: Sharing, base_sha: str, config: Mapping[str, str]
) -> None:
    """Make the ``.git`` that an agent will see: the same commit, index and rules, no URL of a
    remote, no credentials. ``now`` is where the real parts are. Raises OSError.
    """
    for part in ("info", "objects/pack", "refs/heads", "refs/tags"):
        (folder / part).mkdir(parents=True)
    (folder / "HEAD").write_text(f"{base_sha}\n")
    (folder / MARKER).write_text("")
    (folder / "config").write_text(_config(now.object_format, config) + REMOTE)
    for objects in sharing.linked:
        link_objects(objects, folder / "objects")
    borrow(folder / "objects", sharing.lenders)
    copy_if_there(now.index, folder / "index")
    for shared in now.index.parent.glob("sharedindex.*"):
        copy_if_there(shared, folder / shared.name)
    copy_if_there(now.exclude, folder / "info/exclude")
    copy_if_there(now.attributes, folder / "info/attributes")
    if now.shallow:
        copy_if_there(now.shallow, folder / "shallow")


def _config(object_format: str, config: Mapping[str, str]) -> str:
    core = {"bare": "false", "logAllRefUpdates": "true"}
    core |= {key.removeprefix("core."): value for key, value in config.items()}
    version, extension = 0, ""
    if object_format != "sha1":
        version, extension = 1, f"[extensions]\n\tobjectFormat = {object_format}\n"
    lines = "".join(f"\t{key} = {json.dumps(value)}\n" for key, value in core.items())
    return f"[core]\n\trepositoryformatversion = {version}\n{lines}{extension}"


def copied(template: Path, target: Path, user: Owner | None) -> Path:
    """A throw-away like ``template``, for ``user`` where one is named. Raises OSError."""
    shutil.copytree(template, target, copy_function=_linked_or_copied)
    if user:
        give(target, user)
    return target


def _linked_or_copied(source: str, target: str) -> None:
    if os.stat(source).st_nlink > 1:  # noqa: PTH116
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def link_objects(source: Path, target: Path) -> None:
    """Make the files of an object folder known in another one, where another user reads them.

    They stay their owner's, so nobody else can change them. Raises OSError, also for a file that
    only its owner may read.
    """
    for folder, folders, names in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        inner.mkdir(parents=True, exist_ok=True)
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*links, *names):
            if not name.startswith(_NOT_SHARED):
                _share(Path(folder, name), inner / name)


def _share(source: Path, target: Path) -> None:
    mode = source.lstat().st_mode
    if not stat.S_ISREG(mode) or not mode & stat.S_IROTH:
        raise PermissionError(errno.EACCES, "it is no file that everybody may read", str(source))
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        shutil.copyfile(source, target)
    else:
        os.link(source, target)
