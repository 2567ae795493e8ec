"""The checkout while agents work in it: ``.git`` is masked on enter, all is restored on exit."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitlab_nightshift.repository.apply_change import apply_captured_change, apply_difference
from gitlab_nightshift.repository.capture import CapturedChange, capture_change
from gitlab_nightshift.repository.checkout_restore import (
    KnownTree,
    repair,
    restore_checkout,
    restore_files,
)
from gitlab_nightshift.repository.git import Git, build_isolated_git, with_machine_config
from gitlab_nightshift.repository.git_mask import build_moved_paths, mask_git, renew_throwaway
from gitlab_nightshift.repository.owners import OwnershipError, give_checkout
from gitlab_nightshift.repository.prepared_checkout import PreparedCheckout, prepare_checkout
from gitlab_nightshift.repository.private_repository import (
    Repository,
    create_private_repository,
    share_reader,
)
from gitlab_nightshift.repository.saved_state import SavedCheckout, rescan_checkout, write_saved
from gitlab_nightshift.repository.state_folder import (
    GIVEN,
    SAVED,
    StateFolder,
    hold_state_folder,
    release,
)
from gitlab_nightshift.repository.throwaway_git import (
    OWNER_IGNORED,
    build_throwaway,
    plan_object_sharing,
)
from gitlab_nightshift.sandbox.tiers import Mount, SandboxUser
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.openat import remove_path
from gitlab_nightshift.system.signals import defer_signals

Warn = Callable[[str], None]
"""Gets a line for the job log."""


@dataclass(frozen=True)
class Checkout:
    """A checkout whose ``.git`` is masked. Call its methods only while no agent process is alive.

    ``objects`` are the real object folders, which agents have to read; ``secrets`` are files of the
    real repository that they must not read; ``mounts`` are folders that they see at another path.
    """

    path: Path
    base_sha: str
    output_dir: str
    repository: Repository
    saved: SavedCheckout
    objects: tuple[Path, ...]
    secrets: tuple[Path, ...]
    mounts: tuple[Mount, ...]
    _state_folder: StateFolder = field(repr=False)
    _known_tree: KnownTree = field(repr=False)

    @property
    def belongs_to_process(self) -> bool:
        """True if all files and folders belong to this process's user and its groups."""
        uid, groups = os.geteuid(), {os.getegid(), *os.getgroups()}
        owners = self._known_tree.entries.list_owners()
        return all(user == uid and group in groups for user, group in owners)

    def capture(self) -> CapturedChange:
        """The change since the start, stored as a tree that no later process can alter."""
        return capture_change(
            self.path,
            self.saved,
            functools.partial(self._known_tree.compare_now, self.path),
            self.repository,
            self.base_sha,
            self.output_dir,
        )

    def restore(self, *, keep_watched: bool = False, unchanged: bool = False) -> tuple[str, ...]:
        """Restore the tree and the throw-away ``.git`` to their state at the start.

        Returns the paths that could not be restored, printable: ignored files that were too many or
        too large to copy. No result that depends on them counts as proven. ``keep_watched`` accepts
        them as they are: for commands on the untouched checkout, before any agent.
        ``unchanged``: nobody has written to the checkout since ``capture``; it has no effect if a
        program was run since.
        """
        with defer_signals():
            restored = restore_files(
                self._state_folder,
                self.saved,
                self._known_tree,
                self.repository,
                keep_watched=keep_watched,
                compared=self._known_tree.take_comparison() if unchanged else None,
            )
            self._known_tree.entries = restored.snapshot
            self._known_tree.imperfect.update(restored.imperfect)
            renew_throwaway(self._state_folder)
            self._state_folder.reserve.allocate()
        return tuple(map(format_path, restored.failed))

    def apply_change(self, captured: CapturedChange, *, unchanged: bool = False) -> tuple[str, ...]:
        """Restore the tree, then apply exactly this change. Arguments and result are those of
        ``restore``."""
        with defer_signals():
            failed = self.restore(unchanged=unchanged)
            apply_captured_change(self.path, self.saved.entries, self.repository, captured)
        return failed

    def apply_tree(self, tree: str) -> tuple[str, ...]:
        """Restore the tree, then apply any tree in ``repository``; the result is ``restore``'s."""
        with defer_signals():
            failed = self.restore()
            apply_difference(self.path, self.saved.entries, self.repository, self.base_sha, tree)
        return failed


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
    identity: SandboxUser | None = None,
    use_mounts: bool = False,
) -> Iterator[Checkout]:
    """Prepare a checkout and mask its real ``.git`` on enter; restore all on exit, always.

    First repairs what a killed run left. ``private`` is an existing folder that no agent can access
    (0700). With ``real_home``, the machine's own git settings decide whether the checkout is clean
    (LFS). The other arguments are those of ``open_prepared`` and ``prepare_checkout``.
    """
    checkout = path.resolve()
    repair(checkout, private=private, search_path=search_path)
    git = build_isolated_git(private / "home", search_path)
    machine_git = (
        with_machine_config(private / "machine", search_path, real_home) if real_home else git
    )
    held = hold_state_folder(checkout, private.parent)
    try:
        prepared = prepare_checkout(
            held, checkout, git=git, machine_git=machine_git, output_dir=output_dir, run_id=run_id
        )
        with open_prepared(
            prepared,
            private=private,
            search_path=search_path,
            warn=warn,
            identity=identity,
            use_mounts=use_mounts,
            restore_on_exit=True,
        ) as opened:
            yield opened
    finally:
        with defer_signals():
            release(StateFolder(checkout, held.folder, held.lock))


@contextlib.contextmanager
def open_prepared(
    prepared: PreparedCheckout,
    *,
    private: Path,
    search_path: str,
    warn: Warn,
    identity: SandboxUser | None = None,
    use_mounts: bool = False,
    restore_on_exit: bool = False,
) -> Iterator[Checkout]:
    """Mask the real ``.git`` of a prepared checkout.

    With ``identity`` the checkout belongs to that user during the block. ``use_mounts``: processes
    in the checkout get its ``mounts``. With ``restore_on_exit`` all is restored on exit, and
    ``warn`` gets a line for each failure; otherwise the process that prepared the checkout restores
    it. Raises NightshiftError E_CONFIG, and OwnershipError if the checkout cannot be given to the
    user.
    """
    git_path = prepared.checkout / ".git"
    is_folder = git_path.is_dir() and not git_path.is_symlink()
    mounted = use_mounts and not prepared.moved and is_folder
    user = (identity.uid, identity.gid) if identity else None
    state = StateFolder(prepared.checkout, prepared.held.folder, prepared.held.lock, user, mounted)
    git = build_isolated_git(private / "home", search_path)
    # On exit, .git is unmasked first, then the owners are given back.
    with (
        tempfile.TemporaryDirectory(prefix="checkout-", dir=private) as folder,
        _rescan_if_refused(prepared, state),
        give_checkout(state, identity, warn, give_back=restore_on_exit),
    ):
        if identity:
            saved = rescan_checkout(state.checkout, prepared.saved)
            write_saved(state.folder / GIVEN, saved)
            prepared = replace(prepared, saved=saved)
        opened = _build_checkout(
            prepared, state, git, Path(folder), owner_changed=identity is not None
        )
        with share_reader(opened.repository) as repository:
            opened = replace(opened, repository=repository)
            with _keep_git_masked(state, opened, warn, restore_on_exit=restore_on_exit):
                yield opened


@contextlib.contextmanager
def _rescan_if_refused(prepared: PreparedCheckout, state: StateFolder) -> Iterator[None]:
    """Scan and save the tree again if it could not be given to another user: restoring the owners
    has changed every ctime, but no content."""
    try:
        yield
    except OwnershipError:
        write_saved(state.folder / SAVED, rescan_checkout(state.checkout, prepared.saved))
        raise


def _build_checkout(
    prepared: PreparedCheckout, state: StateFolder, git: Git, folder: Path, *, owner_changed: bool
) -> Checkout:
    # The paths once .git is masked: without mounts, .git is moved.
    masked_paths = (
        prepared.paths
        if state.mounted
        else build_moved_paths(prepared.paths, state.checkout, state.folder)
    )
    current_paths = masked_paths if prepared.moved else prepared.paths
    source = replace(current_paths, objects=masked_paths.objects)
    repository = create_private_repository(git, folder / "git", source, prepared.config)
    state.reserve.allocate()
    sharing = plan_object_sharing(state, current_paths, masked_paths)
    remove_path(state.template)
    config = {**prepared.config, **(OWNER_IGNORED if owner_changed else {})}
    with _convert_sharing_errors(state):
        build_throwaway(state.template, current_paths, sharing, prepared.base_sha, config)
    git_mount = Mount(state.shown_git, state.checkout / ".git", writable=True)
    return Checkout(
        path=state.checkout,
        base_sha=prepared.base_sha,
        output_dir=prepared.output_dir,
        repository=repository,
        saved=prepared.saved,
        objects=sharing.readable,
        secrets=masked_paths.list_secrets(),
        mounts=(*sharing.mounts, *((git_mount,) if state.mounted else ())),
        _state_folder=state,
        _known_tree=KnownTree(prepared.saved.entries),
    )


@contextlib.contextmanager
def _convert_sharing_errors(state: StateFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if state.user is None:
            raise
        text = f"git objects cannot be shared: {error.filename} ({error.strerror})"
        raise OwnershipError(text) from None


@contextlib.contextmanager
def _keep_git_masked(
    state: StateFolder, checkout: Checkout, warn: Warn, *, restore_on_exit: bool
) -> Iterator[None]:
    try:
        with defer_signals():
            mask_git(state)
        yield
    finally:
        if restore_on_exit:
            with defer_signals():
                report = restore_checkout(
                    state, checkout.saved, checkout._known_tree, checkout.repository
                )
                for line in report.problems:
                    warn(line)
