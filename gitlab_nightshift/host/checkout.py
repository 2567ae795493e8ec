"""The checkout while agents work in it: covered on enter, put back and uncovered on exit."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.host.aside import (
    COPIES,
    SAVED,
    Aside,
    choose_place,
    claimed,
)
from gitlab_nightshift.host.changes import Captured, capture_change
from gitlab_nightshift.host.cover import THROWAWAY, cover, covered, discard, renew, uncover
from gitlab_nightshift.host.git import (
    Git,
    Place,
    changed_files,
    conversion_config,
    place_and_head,
    pristine,
    tracked_files,
    with_machine_config,
)
from gitlab_nightshift.host.lay import lay_files
from gitlab_nightshift.host.owners import OwnersRefused, given
from gitlab_nightshift.host.paths import display, within
from gitlab_nightshift.host.repair import repair
from gitlab_nightshift.host.repository import Repository, diff_files, private_repository
from gitlab_nightshift.host.restore import put_back, settle
from gitlab_nightshift.host.sandbox.records import Identity, Mount
from gitlab_nightshift.host.saved import Saved, save, write_saved
from gitlab_nightshift.host.signals import shield
from gitlab_nightshift.host.space import Disks
from gitlab_nightshift.host.throwaway import FRESH_ENOUGH, build_throwaway, share_objects
from gitlab_nightshift.host.tree import TOP, Snapshot

Warn = Callable[[str], None]
NAMED = 10
"""So many paths are named in a message."""


@dataclass
class _Known:
    """The state of the tree that is known to be as saved; each put back moves it on. ``unlike``
    are the paths of which not even that could bring owner and times back."""

    entries: Snapshot
    unlike: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Checkout:
    """A covered checkout. Its methods are for times when no agent process is alive.

    ``objects`` are the real object folders that agents have to read, ``mounts`` what they have to
    see at another place, ``secrets`` what they must not read: configuration and logs of the real
    repository.
    """

    path: Path
    base_sha: str
    output_dir: str
    repository: Repository
    saved: Saved
    objects: tuple[Path, ...]
    secrets: tuple[Path, ...]
    mounts: tuple[Mount, ...]
    _aside: Aside = field(repr=False)
    _known: _Known = field(repr=False)

    def change(self) -> Captured:
        """What differs from the start, fixed as a tree: nothing that runs later can alter it."""
        return capture_change(
            self.path,
            self.saved,
            self._known.entries,
            self.repository,
            self.base_sha,
            self.output_dir,
        )

    def put_back(self, *, keep_watched: bool = False) -> tuple[str, ...]:
        """Make the tree what it was at the start, and the throw-away ``.git`` too.

        Returns the paths that could not be restored, as they may be shown: ignored files that
        were too many or too large to be copied beforehand. Nothing that depends on them is proven
        then. ``keep_watched`` takes them for good as they are: after commands on the untouched
        checkout, before any agent.
        """
        with shield():
            if Disks((self.path,)).full():  # perhaps with what an agent put below .git
                discard(self._aside)
            done = put_back(
                self.path,
                self.saved,
                self._known.entries,
                self.repository,
                keep_watched=keep_watched,
            )
            self._known.entries = done.known
            self._known.unlike.update(done.unlike)
            renew(self._aside)
        return tuple(map(display, done.failed))

    def leave(self) -> tuple[str, ...]:
        """Put all back for good, each part whatever becomes of the others.

        Returns what could not be put back, a line for each kind of it.
        """
        told: list[str] = []
        with _telling(told, "the checkout could not be put back"):
            if failed := self.put_back():
                told.append(f"could not be put back: {_names(failed)}")
        with _telling(told, f"the real .git is still in {self._aside.folder}"):
            uncover(self._aside)
        with _telling(told, "the checkout could not be put back"):
            if not settle(self.path, TOP, self.saved.entries[TOP], self.saved.lists.get(TOP, {})):
                self._known.unlike.add(TOP)
        if unlike := sorted(display(path or ".") for path in self._known.unlike):
            text = "put back, but for owner or times, which only the owner before can set"
            told.append(f"{text}: {_names(unlike)}")
        return tuple(told)

    def lay(self, captured: Captured) -> tuple[str, ...]:
        """Put the tree back, then apply exactly that change; returns as ``put_back``."""
        with shield():
            failed = self.put_back()
            lay_files(self.path, self.saved, self.repository, captured)
        return failed

    def lay_tree(self, tree: str) -> tuple[str, ...]:
        """The same for any tree in ``repository``."""
        return self.lay(Captured(tree, diff_files(self.repository, self.base_sha, tree), b""))


@contextlib.contextmanager
def _telling(told: list[str], what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        told.append(f"{what}: {error}")


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


@contextlib.contextmanager
def open_checkout(
    path: Path,
    *,
    output_dir: str,
    private: Path,
    search_path: str,
    run_id: str,
    warn: Warn,
    real_home: Path | None = None,
    identity: Identity | None = None,
    mounting: bool = False,
) -> Iterator[Checkout]:
    """Cover the real ``.git`` on enter; put the tree back and uncover it on exit, always.

    ``private`` is an existing folder that no agent can reach (0700); ``output_dir`` (relative) is
    never part of a change; ``search_path`` is ``environment.search_path``. With ``real_home`` the
    machine's own git settings judge whether the checkout is clean (LFS). With ``identity`` the
    checkout belongs to that user meanwhile. ``mounting`` says that whoever works in it gets the
    checkout's ``mounts``. First repairs what a killed run left. Raises NightshiftError E_CONFIG,
    E_WORKSPACE_DIRTY, and OwnersRefused where it cannot be that user's. On exit it raises nothing:
    ``warn`` is told what could not be put back, in lines.
    """
    checkout = path.resolve()
    repair(checkout, private=private, search_path=search_path)
    git = pristine(private / "home", search_path)
    now, base_sha = place_and_head(git, checkout)
    machine = with_machine_config(private / "machine", search_path, real_home) if real_home else git
    refuse_changed(machine, checkout)
    refuse_tracked(git, checkout, output_dir)
    mounted = mounting and _is_folder(checkout / ".git")
    folder_aside = choose_place(checkout, private.parent, moving=not mounted)
    later = now if mounted else covered(now, checkout, folder_aside)
    user = (identity.uid, identity.gid) if identity else None
    with (
        claimed(checkout, folder_aside, later, base_sha, run_id, user, mounted=mounted) as aside,
        tempfile.TemporaryDirectory(prefix="checkout-", dir=private) as folder,
        given(aside, identity, warn),
    ):
        config = conversion_config(git, checkout)
        source = replace(now, objects=later.objects)
        repository = private_repository(git, Path(folder) / "git", source, config)
        saved = save(git, checkout, aside.folder / COPIES)
        write_saved(aside.folder / SAVED, saved)
        sharing = share_objects(aside, now, later)
        with _told_where_refused(aside):
            fresh = config | (FRESH_ENOUGH if identity else {})
            build_throwaway(aside.folder / THROWAWAY, now, sharing, base_sha, fresh)
        opened = Checkout(
            path=checkout,
            base_sha=base_sha,
            output_dir=output_dir,
            repository=repository,
            saved=saved,
            objects=sharing.readable,
            secrets=_secrets(later),
            mounts=(*sharing.mounts, *_shown(aside)),
            _aside=aside,
            _known=_Known(saved.entries),
        )
        with _covered(aside, opened, warn):
            yield opened


def _secrets(later: Place) -> tuple[Path, ...]:
    """Of a worktree there are two: its own, and those of the repository that it belongs to."""
    folders = dict.fromkeys((later.git_dir, later.objects[0].parent))
    return tuple(folder / name for folder in folders for name in ("config", "logs"))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _shown(aside: Aside) -> tuple[Mount, ...]:
    target = aside.checkout / ".git"
    return (Mount(aside.shown_git, target, writable=True),) if aside.mounted else ()


@contextlib.contextmanager
def _told_where_refused(aside: Aside) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if aside.user is None:
            raise
        text = f"git objects cannot be shared: {error.filename} ({error.strerror})"
        raise OwnersRefused(text) from None


def refuse_changed(git: Git, checkout: Path) -> None:
    """Raise E_WORKSPACE_DIRTY for local changes.

    ``git`` has the machine's configuration: without its filters LFS files would look changed.
    """
    if changed := changed_files(git, checkout):
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"{checkout} has local changes ({_names([*map(display, changed)])}): commit or undo"
            " them first",
        )


def refuse_tracked(git: Git, checkout: Path, output_dir: str) -> None:
    """Raise E_CONFIG where files of the output folder are tracked."""
    if any(within(path, output_dir) for path in tracked_files(git, checkout)):
        raise config_error(f"output_dir: {output_dir} is tracked by git: choose another folder")


@contextlib.contextmanager
def _covered(aside: Aside, checkout: Checkout, warn: Warn) -> Iterator[None]:
    try:
        with shield():
            _cover(aside)
        yield
    finally:
        with shield():
            for line in checkout.leave():
                warn(line)


def _cover(aside: Aside) -> None:
    try:
        cover(aside)
    except OSError as error:
        raise config_error(
            f"{aside.checkout}/.git cannot be moved to {aside.folder} ({error.strerror}):"
            " check the project out on a file system of its own user, not in an image"
        ) from None
