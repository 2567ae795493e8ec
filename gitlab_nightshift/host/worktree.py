"""A person's checkout as trees, read without changing it: nothing of it is written.

Everything new goes into a private repository that borrows the checkout's objects.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.host.git import Git, GitError, Place
from gitlab_nightshift.host.repository import Repository, private_repository, write_tree

_HOOK_ENTRY = "GIT_INDEX_FILE"


@dataclass(frozen=True)
class Worktree:
    """A checkout and the private repository in which its trees are made."""

    top: Path
    place: Place
    repository: Repository
    ignores: str
    lfs: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def empty_tree(self) -> str:
        """The id of a tree without files."""
        return self.repository.run("mktree").decode().strip()


def open_worktree(folder: Path, private: Path, env: Mapping[str, str]) -> Worktree:
    """The checkout around ``folder``; ``private`` is a folder for all that is written.

    Raises NightshiftError E_CONFIG where there is none.
    """
    path = search_path(env, folder)
    home = Path(env.get("HOME", "/"))
    machine = git_verbs.with_machine_config(private / "machine", path, home)
    top = _top(machine, folder)
    path = search_path(env, top)
    git = git_verbs.pristine(private / "home", path)
    found = git_verbs.place(git, top)
    config = git_verbs.conversion_config(machine, top)
    repository = private_repository(git, private / "git", found, config)
    ignores = _config_path(machine, top) or str(_default_ignores(env, home))
    return Worktree(top, found, repository, ignores, _lfs(path), env)


def _top(git: Git, folder: Path) -> Path:
    try:
        out = git.run("rev-parse", "--is-bare-repository", "--show-toplevel", cwd=folder)
    except GitError as error:
        bare = error.stdout.startswith(b"true")
        what = "is a bare repository" if bare else "is in no git checkout"
        raise config_error(f"{folder} {what}: run in a checkout, or name one by -C") from None
    return Path(os.fsdecode(out).split("\n")[1])


def _config_path(git: Git, top: Path) -> str:
    try:
        out = git.run("config", "--path", "--get", "core.excludesFile", cwd=top)
    except GitError:
        return ""
    return os.fsdecode(out).strip()


def _default_ignores(env: Mapping[str, str], home: Path) -> Path:
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git/ignore"


def _lfs(path: str) -> tuple[str, ...]:
    """The one filter that is run: without it every file of LFS would look changed."""
    program = shutil.which("git-lfs", path=path)
    return (f"filter.lfs.clean='{program}' clean -- %f",) if program and "'" not in program else ()


# --- trees ----------------------------------------------------------------------------------------


def working_tree(worktree: Worktree) -> str:
    """The id of the tree of tracked files as they are and of untracked ones, but ignored.

    Repositories inside the checkout are left out. Raises GitError.
    """
    index = _index(worktree, worktree.place.index)
    _in(worktree, index, "add", "--update", "--ignore-errors", "--", ".")
    listed = _in(worktree, index, "ls-files", "--others", "--exclude-standard", "-z")
    # A repository inside is listed as a folder, which update-index passes over.
    _in(worktree, index, "update-index", "--add", "-z", "--stdin", stdin=listed)
    return write_tree(worktree.repository, index)


def staged_tree(worktree: Worktree) -> str:
    """The id of the tree that the next commit would have; in a hook, that of the commit at hand.

    Raises GitError, also for an index with conflicts.
    """
    named = worktree.env.get(_HOOK_ENTRY)
    source = (worktree.top / named) if named else worktree.place.index
    return write_tree(worktree.repository, _index(worktree, source))


def _index(worktree: Worktree, source: Path) -> Path:
    """A copy of an index with its times, so that unchanged files are known without reading them."""
    index = worktree.repository.folder / "index"
    if source.exists():
        shutil.copy2(source, index)
        for shared in source.parent.glob("sharedindex.*"):
            shutil.copy2(shared, worktree.repository.folder / shared.name)
    return index


def _in(worktree: Worktree, index: Path, *args: str, stdin: bytes = b"") -> bytes:
    env = {
        "GIT_DIR": str(worktree.repository.folder),
        "GIT_WORK_TREE": str(worktree.top),
        "GIT_INDEX_FILE": str(index),
    }
    settings = (f"core.excludesFile={worktree.ignores}", *worktree.lfs)
    git = worktree.repository.git
    return git.run(*args, cwd=worktree.top, stdin=stdin, env=env, settings=settings)


# --- commits --------------------------------------------------------------------------------------


def commit_of(worktree: Worktree, revision: str) -> str | None:
    """The full id of the commit that a revision names in the checkout; None where it names none."""
    asked = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        out = worktree.repository.git.run("rev-parse", *asked, cwd=worktree.top)
    except GitError:
        return None
    return out.decode().strip()


def needed(worktree: Worktree, revision: str) -> str:
    """The same; raises NightshiftError E_CONFIG with what to do where it names none."""
    found = commit_of(worktree, revision)
    if found is None:
        raise _missing(worktree, f"{revision!r} names no commit here")
    return found


def parent_of(worktree: Worktree, commit: str) -> str:
    """The first parent of a commit, for a root the empty tree.

    Raises E_CONFIG at the boundary of a shallow clone.
    """
    if found := commit_of(worktree, f"{commit}^"):
        return found
    if is_boundary(worktree, commit):
        raise _missing(worktree, f"the parent of {commit[:12]} is not here")
    return worktree.empty_tree


def common_base(worktree: Worktree, base: str, commit: str) -> str:
    """Where a commit's history left that of ``base``; ``base`` itself where they share none."""
    try:
        found = worktree.repository.run("merge-base", base, commit).decode().strip()
    except GitError:
        found = ""
    if not found and worktree.place.shallow:
        raise _missing(worktree, f"the history between {base[:12]} and {commit[:12]} is not here")
    return found or base


def is_boundary(worktree: Worktree, commit: str) -> bool:
    """True where a shallow clone ends at the commit."""
    shallow = worktree.place.shallow
    return shallow is not None and commit in shallow.read_text().split()


def _missing(worktree: Worktree, what: str) -> NightshiftError:
    if worktree.place.shallow:
        return config_error(
            f"{what}: the clone is shallow; fetch more (GIT_DEPTH: 0 in CI, git fetch --unshallow)"
        )
    return config_error(f"{what}: name an existing one")
