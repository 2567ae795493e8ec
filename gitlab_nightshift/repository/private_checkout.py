"""Makes a private checkout of a user's repository, to work in without changing the user's.

It borrows the user's objects. Of their ``.git`` it has only the rules for ignored files and
attributes: no remotes, credentials or hooks.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.repository.git import Git, GitError, RepositoryPaths
from gitlab_nightshift.repository.git_formats import (
    copy_if_present,
    join_names,
    write_alternates,
    write_git_folder,
)
from gitlab_nightshift.repository.saved_state import copy_file, restore_folder_modes
from gitlab_nightshift.repository.tree_snapshot import TOP, EntryKind, TreeEntry, scan
from gitlab_nightshift.system.file_names import format_path, within
from gitlab_nightshift.system.openat import RefusedFileError

# git commit-tree refuses to work without an identity.
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "nightshift"), ("EMAIL", "nightshift@localhost"))
}


def check_out(
    git: Git, folder: Path, source: RepositoryPaths, commit: str, config: Mapping[str, str]
) -> None:
    """Make ``folder`` (new) a detached checkout of a commit. Raises NightshiftError E_CONFIG.

    ``config`` is ``git.read_conversion_config`` of the source. Runs no filter: a Git LFS file stays
    a pointer.
    """
    _create_empty_checkout(git, folder, source, commit, config)
    try:
        git.run("checkout-index", "--all", "--index", "--quiet", cwd=folder)
    except GitError as error:
        raise build_config_error(f"{commit[:12]} cannot be checked out: {error}") from None


def copy_checkout(
    git: Git,
    folder: Path,
    source: RepositoryPaths,
    commit: str,
    config: Mapping[str, str],
    original: Path,
    output_dir: str,
) -> None:
    """Make a checkout like ``check_out``, but with a copy of all files of ``original``, a checkout
    of the same commit: also changed, untracked and ignored ones, but not those in
    ``output_dir``."""
    _create_empty_checkout(git, folder, source, commit, config)
    entries = scan(original)
    try:
        for path, entry in entries.items():
            if path != TOP and not within(path, output_dir):
                _copy_entry(original, folder, path, entry)
    finally:
        restore_folder_modes(original, entries)
    # So that git need not read every file again; exit status 1 if a file differs.
    with contextlib.suppress(GitError):
        git.run("update-index", "-q", "--refresh", cwd=folder)


def commit_changed(git: Git, folder: Path, paths: tuple[str, ...]) -> str:
    """Commit these changed tracked files of a private checkout; returns the commit's id."""
    options = ("--add", "--remove", "-z", "--stdin")
    git.run("update-index", *options, cwd=folder, stdin=join_names(paths))
    tree = git.run("write-tree", cwd=folder).decode().strip()
    arguments = ("--no-gpg-sign", "-p", "HEAD", "-m", "local changes", tree)
    commit = git.run("commit-tree", *arguments, cwd=folder, env=IDENTITY).decode().strip()
    (folder / ".git/HEAD").write_text(f"{commit}\n")
    return commit


def _create_empty_checkout(
    git: Git, folder: Path, source: RepositoryPaths, commit: str, config: Mapping[str, str]
) -> None:
    folder.mkdir()
    git_dir = folder / ".git"
    settings = {"core.bare": "false", "core.logAllRefUpdates": "true", **config}
    write_git_folder(git_dir, settings, head=commit, object_format=source.object_format)
    write_alternates(git_dir / "objects", source.objects)
    copy_if_present(source.exclude, git_dir / "info/exclude")
    copy_if_present(source.attributes, git_dir / "info/attributes")
    if source.shallow:
        copy_if_present(source.shallow, git_dir / "shallow")
    try:
        git.run("read-tree", commit, cwd=folder)
    except GitError as error:
        raise build_config_error(f"{commit[:12]} cannot be read: {error}") from None


def _copy_entry(original: Path, folder: Path, path: str, entry: TreeEntry) -> None:
    """Copy an entry, a folder before its content; skips devices and sockets."""
    target = folder / path
    if entry.kind is EntryKind.FOLDER:
        target.mkdir()
        target.chmod(entry.mode | 0o700)  # its content is copied later
    elif entry.kind is EntryKind.LINK:
        target.symlink_to(entry.target)
    elif entry.kind is EntryKind.FILE:
        try:
            copy_file(original, path, target)
        except (OSError, RefusedFileError) as error:
            why = getattr(error, "strerror", None) or error
            raise build_config_error(f"{format_path(path)} cannot be copied: {why}") from None
        os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
        target.chmod(entry.mode)
