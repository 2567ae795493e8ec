"""Reads a user's checkout without writing to it: its files as trees, and its commits.

New objects are written to a private repository that borrows the checkout's objects.
"""

import functools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.repository.broken_repository import render_damage
from gitlab_nightshift.repository.changed_files import list_untouched
from gitlab_nightshift.repository.git import (
    CONVERSION_KEYS,
    Git,
    GitError,
    RepositoryPaths,
    build_isolated_git,
    find_paths_commit_and_tree,
    read_settings,
    split_names,
    with_machine_config,
)
from gitlab_nightshift.repository.git_formats import join_names
from gitlab_nightshift.repository.private_repository import (
    Repository,
    create_private_repository,
    write_tree,
)
from gitlab_nightshift.sealed_start import find_checkouts
from gitlab_nightshift.system.environment import build_search_path

_HOOK_INDEX_VARIABLE = "GIT_INDEX_FILE"
_EXCLUDES = "core.excludesFile"
_MOST_MESSAGES = 200


@dataclass(frozen=True)
class Worktree:
    """A checkout, and the private ``repository`` to which its trees are written. ``head`` is the
    checked-out commit and ``head_tree`` its tree, "" before the first commit. ``ignore_file`` is
    the user's own, ``lfs`` are the settings for the filter of Git LFS."""

    top: Path
    paths: RepositoryPaths
    head: str
    head_tree: str
    repository: Repository
    ignore_file: str
    lfs: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def empty_tree(self) -> str:
        """The id of a tree without files."""
        return self.repository.run("mktree").decode().strip()


def open_worktree(folder: Path, private: Path, env: Mapping[str, str]) -> Worktree:
    """The checkout that contains ``folder``; all files are written to ``private``.

    Raises NightshiftError E_CONFIG if there is none.
    """
    search_path = build_search_path(env, folder)
    # No program of the checkout is run, not even to find its top.
    for checkout in find_checkouts(folder, env):
        search_path = build_search_path({"PATH": search_path}, checkout)
    home = Path(env.get("HOME", "/"))
    machine_git = with_machine_config(private / "machine", search_path, home)
    top = _find_top(machine_git, folder)
    search_path = build_search_path(env, top)
    git = build_isolated_git(private / "home", search_path)
    paths, head, tree = find_paths_commit_and_tree(git, top)
    config = read_settings(machine_git, top, *CONVERSION_KEYS, _EXCLUDES)
    excludes = _read_excludes_path(machine_git, top) if config.pop(_EXCLUDES, "") else ""
    repository = create_private_repository(git, private / "git", paths, config)
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    ignore_file = excludes or str(config_home / "git/ignore")
    lfs = _build_lfs_settings(search_path)
    return Worktree(top, paths, head, tree, repository, ignore_file, lfs, env)


def _find_top(git: Git, folder: Path) -> Path:
    try:
        out = git.run("rev-parse", "--is-bare-repository", "--show-toplevel", cwd=folder)
    except GitError as error:
        bare = error.stdout.startswith(b"true")
        what = "is a bare repository" if bare else "is not in a git checkout"
        raise build_config_error(
            f"{folder} {what}: run in a checkout, or name one with -C"
        ) from None
    return Path(os.fsdecode(out).partition("\n")[2].removesuffix("\n"))


def _read_excludes_path(git: Git, top: Path) -> str:
    try:
        out = git.run("config", "--path", "--get", _EXCLUDES, cwd=top)
    except GitError:
        return ""
    return os.fsdecode(out).strip()


def _build_lfs_settings(search_path: str) -> tuple[str, ...]:
    """Settings for the only filter that is run: without it, every LFS file would look changed."""
    program = shutil.which("git-lfs", path=search_path)
    return (f"filter.lfs.clean='{program}' clean -- %f",) if program and "'" not in program else ()


# --- trees ----------------------------------------------------------------------------------------


def write_working_tree(worktree: Worktree) -> str:
    """Write the tree of the tracked files as they are now, and of the untracked ones that are not
    ignored. Returns its id.

    Skips repositories inside the checkout. Raises GitError.
    """
    index = _copy_index(worktree, worktree.paths.index)
    run = functools.partial(_run_git, worktree, index)
    if untouched := list_untouched(run, worktree.top):
        names = split_names(run("diff-files", "-z", "--name-only"))
        stdin = join_names(name for name in names if name not in untouched)
        arguments = ("--pathspec-from-file=-", "--pathspec-file-nul")
        if stdin:
            run("add", "--update", "--ignore-errors", *arguments, stdin=stdin)
    else:
        run("add", "--update", "--ignore-errors", "--", ".")
    untracked = run("ls-files", "--others", "--exclude-standard", "-z")
    if untracked:  # a repository inside is listed as "folder/", which update-index skips
        run("update-index", "--add", "-z", "--stdin", stdin=untracked)
    return write_tree(worktree.repository, index)


def write_staged_tree(worktree: Worktree) -> str:
    """Write the tree of the next commit, or, in a hook, of the current one; returns its id.

    Raises GitError, also for an index with conflicts.
    """
    # git commit with paths runs its hooks with a temporary index (githooks(5)).
    hook_index = worktree.env.get(_HOOK_INDEX_VARIABLE)
    source = (worktree.top / hook_index) if hook_index else worktree.paths.index
    return write_tree(worktree.repository, _copy_index(worktree, source))


def _copy_index(worktree: Worktree, source: Path) -> Path:
    """Copy an index with its times into the private repository; returns the copy's path."""
    index = worktree.repository.folder / "index"
    if source.exists():
        # Git trusts the size and times of a file that is older than the index (its racy-git
        # document). With a new time, it would miss a change just after the index was written.
        shutil.copy2(source, index)
        # Git looks for the shared part of a split index beside it (git-update-index(1)).
        for shared_index in source.parent.glob("sharedindex.*"):
            shutil.copy2(shared_index, worktree.repository.folder / shared_index.name)
    return index


def _run_git(worktree: Worktree, index: Path, *args: str, stdin: bytes = b"") -> bytes:
    env = {
        "GIT_DIR": str(worktree.repository.folder),
        "GIT_WORK_TREE": str(worktree.top),
        "GIT_INDEX_FILE": str(index),
    }
    settings = (f"core.excludesFile={worktree.ignore_file}", *worktree.lfs)
    git = worktree.repository.git
    return git.run(*args, cwd=worktree.top, stdin=stdin, env=env, settings=settings)


# --- commits --------------------------------------------------------------------------------------


def find_commit(worktree: Worktree, revision: str) -> str | None:
    """The full id of the commit that a revision names in the checkout; None if there is none."""
    return _find_object(worktree, f"{revision}^{{commit}}")


def _find_object(worktree: Worktree, name: str) -> str | None:
    arguments = ("--verify", "--quiet", "--end-of-options", name)
    try:
        out = worktree.repository.git.run("rev-parse", *arguments, cwd=worktree.top)
    except GitError:
        return None
    return out.decode().strip()


def resolve_commit(worktree: Worktree, revision: str) -> str:
    """Like ``find_commit``, but raises NightshiftError E_CONFIG, with advice, if there is none."""
    commit = find_commit(worktree, revision)
    if commit is None:
        raise _build_missing_error(worktree, f"{revision!r} is not a commit here")
    return commit


def resolve_parent(worktree: Worktree, commit: str) -> str:
    """The first parent of a commit, or the empty tree for a root commit.

    Raises E_CONFIG at the boundary of a shallow clone, and if the parent is missing.
    """
    if parent := find_commit(worktree, f"{commit}^"):
        return parent
    if is_shallow_boundary(worktree, commit):
        raise _build_missing_error(worktree, f"the parent of {commit[:12]} is not here")
    if missing := _find_object(worktree, f"{commit}^"):
        raise build_config_error(render_damage(f"{missing[:12]} is not there", worktree.top))
    return worktree.empty_tree


def read_messages_between(worktree: Worktree, base: str, commit: str) -> list[tuple[str, str]]:
    """Ids and messages of the commits that are in ``commit`` and not in ``base``, newest first."""
    arguments = ("-z", "--format=%H%n%B", f"--max-count={_MOST_MESSAGES}", f"{base}..{commit}")
    texts = worktree.repository.run("log", *arguments).decode("utf-8", "replace").split("\0")
    commits = (text.partition("\n") for text in texts if text)
    return [(commit_id, message) for commit_id, _, message in commits]


def find_common_base(worktree: Worktree, base: str, commit: str) -> str:
    """The merge base of a commit and ``base``; ``base`` itself if they share no history."""
    try:
        merge_base = worktree.repository.run("merge-base", base, commit).decode().strip()
    except GitError:
        merge_base = ""
    if not merge_base and worktree.paths.shallow:
        raise _build_missing_error(
            worktree, f"the history between {base[:12]} and {commit[:12]} is not here"
        )
    return merge_base or base


def is_shallow_boundary(worktree: Worktree, commit: str) -> bool:
    """True if a shallow clone ends at the commit."""
    shallow = worktree.paths.shallow
    return shallow is not None and commit in shallow.read_text().split()


def _build_missing_error(worktree: Worktree, what: str) -> NightshiftError:
    if worktree.paths.shallow:
        return build_config_error(
            f"{what}: the clone is shallow; fetch more (GIT_DEPTH: 0 in CI, git fetch --unshallow)"
        )
    return build_config_error(f"{what}: name an existing one")
