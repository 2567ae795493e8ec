"""Git with nothing of the caller's environment, and what is asked of the real checkout.

The verbs here run before an agent starts; none of them runs a hook or a file system monitor.
Paths are ``str`` with surrogate escapes, relative to the top of the checkout.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host.process import NOT_FOUND, Captured, capture

TIMEOUT_S = 300.0
_FIXED = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_QUIET = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "log.showSignature=false",
    "maintenance.auto=false",
    "submodule.recurse=false",
)
PLAIN_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


class GitError(Exception):
    """A git command failed; the text is its first line on stderr."""

    def __init__(self, verb: str, done: Captured) -> None:
        lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line]
        super().__init__(f"git {verb}: {lines[0] if lines else 'failed without a word'}")
        self.exit_status, self.stdout, self.stderr = done.exit_status, done.stdout, done.stderr


@dataclass(frozen=True)
class Git:
    """How git is run: an absolute program and its whole environment."""

    program: str
    env: Mapping[str, str]

    def run(
        self,
        verb: str,
        *args: str,
        cwd: Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        settings: tuple[str, ...] = (),
        timeout_s: float = TIMEOUT_S,
        memory: int | None = None,
    ) -> bytes:
        """Stdout of a git command. ``env`` and ``settings`` (key=value) are added to this git's
        own, ``memory`` bounds its data in bytes. Raises GitError.
        """
        options = [part for setting in (*_QUIET, *settings) for part in ("-c", setting)]
        argv = [self.program, *options, verb, *args]
        whole = {**self.env, **(env or {})}
        done = capture(argv, cwd=cwd, env=whole, stdin=stdin, timeout_s=timeout_s, memory=memory)
        if done.exit_status == NOT_FOUND and not self.program.startswith("/"):
            raise config_error("git was not found on PATH: install git 2.34 or newer")
        if not done.ok:
            raise GitError(verb, done)
        return done.stdout


def pristine(home: Path, path: str) -> Git:
    """Git without system, user or caller configuration; ``home`` is a private folder for it.

    ``path`` is a search path without relative folders and without any of the checkout
    (``environment.search_path``), so that no program an agent could have written is ever run.
    """
    return _git(home, path, "", {"GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_NOSYSTEM": "1"})


def with_machine_config(home: Path, path: str, real_home: Path) -> Git:
    """Git with this machine's own configuration (identity, LFS): before an agent starts only."""
    includes = (real_home / ".config/git/config", real_home / ".gitconfig")
    text = "".join(f'[include]\n\tpath = "{_quoted(path)}"\n' for path in includes)
    return _git(home, path, text, {})


def _git(home: Path, path: str, config: str, env: Mapping[str, str]) -> Git:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(config + "[safe]\n\tdirectory = *\n")
    program = shutil.which("git", path=path) or "git"
    return Git(program, {**_FIXED, **env, "HOME": str(home), "PATH": path})


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


# --- where things are -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a checkout's repository keeps its parts, all absolute.

    ``git_dir`` is the folder that holds HEAD and the index; it is ``.git`` itself unless ``.git``
    is a file (worktree, submodule). ``objects`` begins with the repository's own object folder,
    followed by those it borrows from.
    """

    git_dir: Path
    index: Path
    exclude: Path
    attributes: Path
    shallow: Path | None
    objects: tuple[Path, ...]
    object_format: str


def place(git: Git, checkout: Path) -> Place:
    """Find the parts of ``checkout``'s repository. Raises NightshiftError E_CONFIG."""
    if not os.path.lexists(checkout / ".git"):
        raise config_error(f"{checkout} is not the top of a git checkout: run in one")
    names = ("index", "info/exclude", "info/attributes", "shallow")
    asked = [part for name in (*names, "objects") for part in ("--git-path", name)]
    try:
        out = git.run(
            "rev-parse", "--absolute-git-dir", "--show-object-format", *asked, cwd=checkout
        )
    except GitError as error:
        raise config_error(f"{checkout} is not a git checkout that can be read: {error}") from None
    git_dir, form, *found = os.fsdecode(out).rstrip("\n").split("\n")
    index, exclude, attributes, shallow, objects = (checkout / name for name in found)
    return Place(
        git_dir=Path(git_dir),
        index=index,
        exclude=exclude,
        attributes=attributes,
        shallow=shallow if shallow.exists() else None,
        objects=_alternates(objects.resolve()),
        object_format=form,
    )


def _alternates(objects: Path) -> tuple[Path, ...]:
    """An object folder and, once each, those that it borrows from."""
    found: list[Path] = []
    queue = [objects]
    while queue and len(found) < 100:
        if (folder := queue.pop(0)) not in found:
            found.append(folder)
            listed = folder / "info/alternates"
            lines = os.fsdecode(listed.read_bytes()).split("\n") if listed.is_file() else []
            queue += [(folder / line).resolve() for line in lines if line and line[0] != "#"]
    return tuple(found)


# --- what stands in the checkout ------------------------------------------------------------------


def head(git: Git, checkout: Path) -> str:
    """The full id of the checked-out commit. Raises E_CONFIG where there is none."""
    try:
        out = git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=checkout)
    except GitError:
        raise config_error(f"{checkout} has no commit yet: make a first commit") from None
    return out.decode().strip()


def changed_files(git: Git, checkout: Path) -> tuple[str, ...]:
    """Tracked files that differ from HEAD, staged or not; submodules are not looked into."""
    asked = ("--porcelain=v1", "-z", "-uno", "--no-renames", "--ignore-submodules=all")
    return tuple(entry[3:] for entry in split_names(git.run("status", *asked, cwd=checkout)))


def tracked_files(git: Git, checkout: Path) -> tuple[str, ...]:
    """All paths in the index."""
    return split_names(git.run("ls-files", "-z", cwd=checkout))


def blob_sizes(git: Git, checkout: Path, blobs: Iterable[str]) -> dict[str, int]:
    """Size in bytes of blobs by their ids; those that a partial clone lacks are left out."""
    asked = "".join(f"{blob}\n" for blob in set(blobs)).encode()
    out = git.run("cat-file", "--buffer", "--batch-check", cwd=checkout, stdin=asked).decode()
    rows = (row.split(" ") for row in out.splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) == 3}


def read_file(git: Git, checkout: Path, revision: str, path: str) -> bytes | None:
    """A file's bytes as a revision holds them; None where it is not there or no file."""
    listed = git.run("ls-tree", "-z", "--full-tree", revision, "--", path, cwd=checkout)
    for entry in split_names(listed):
        mode, kind, blob = entry.split("\t", 1)[0].split()
        if kind == "blob" and mode != "120000":
            return git.run("cat-file", "blob", blob, cwd=checkout)
    return None


def commit_messages(git: Git, checkout: Path, count: int) -> tuple[str, ...]:
    """The whole messages of the last commits that are no merges, newest first."""
    asked = ("--no-merges", "-z", "--format=%B", f"--max-count={count}", "HEAD")
    out = git.run("log", *asked, cwd=checkout)
    return tuple(text.decode("utf-8", "replace").strip() for text in out.split(b"\0") if text)


def recent_files(git: Git, checkout: Path, count: int, revision: str = "HEAD") -> frozenset[str]:
    """Files touched by the last ``count`` commits of a revision.

    Merges count by their first parent; the root and a shallow boundary do not count (contract,
    ``avoid_recent_commits``).
    """
    walk = ("--first-parent", "--diff-merges=first-parent", "--min-parents=1")
    shown = ("--name-only", "-z", "--format=", f"--max-count={count}", revision)
    return frozenset(split_names(git.run("log", *walk, *PLAIN_DIFF, *shown, cwd=checkout)))


@dataclass(frozen=True)
class Identity:
    """A person in a commit."""

    name: str
    email: str


def identity(git: Git, checkout: Path) -> Identity | None:
    """``user.name`` and ``user.email`` as configured; None unless both are."""
    name, email = (_config(git, checkout, key) for key in ("user.name", "user.email"))
    return Identity(name, email) if name and email else None


def conversion_config(git: Git, checkout: Path) -> dict[str, str]:
    """The checkout's settings that decide how a file's bytes and mode become a blob."""
    keys = ("core.autocrlf", "core.eol", "core.fileMode", "core.symlinks", "core.ignoreCase")
    names = {key.lower(): key for key in keys}  # git tells them so
    wanted = "|".join(names).replace(".", r"\.")
    try:
        out = git.run("config", "-z", "--get-regexp", f"^({wanted})$", cwd=checkout)
    except GitError:
        return {}
    rows = (row.partition("\n") for row in out.decode("utf-8", "replace").split("\0"))
    found = {key: value.strip() for key, _, value in rows}
    return {names[key]: value for key, value in found.items() if value}


def _config(git: Git, checkout: Path, key: str) -> str:
    try:
        out = git.run("config", "-z", "--get", key, cwd=checkout)
    except GitError:
        return ""
    return out.rstrip(b"\0").decode("utf-8", "replace").strip()


def split_names(out: bytes) -> tuple[str, ...]:
    """NUL-separated output as paths."""
    return tuple(filter(None, os.fsdecode(out).split("\0")))
