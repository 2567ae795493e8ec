"""Runs git without the caller's environment, and reads the real checkout.

Functions that read the real checkout are called before an agent starts, and run no hook or file
system monitor. Paths are ``str`` with surrogate escapes, relative to the top of the checkout.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.repository.broken_repository import (
    describe_damage,
    refuse_broken_repository,
    refuse_line_break,
    render_damage,
)
from gitlab_nightshift.repository.git_formats import (
    join_names,
    list_object_folders,
    parse_tree,
    split_objects,
)
from gitlab_nightshift.sandbox.process import (
    NOT_FOUND,
    BatchProcess,
    CapturedOutput,
    capture,
    open_batch_process,
)

TIMEOUT_S = 300.0
LONGEST_REASON = 500
_ENVIRONMENT = {
    # Missing objects are not fetched. Git before 2.45 knows only the first of these two.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",  # paths are not patterns
    "GIT_NO_REPLACE_OBJECTS": "1",  # git-replace(1) would show other content under an id
    "GIT_OPTIONAL_LOCKS": "0",  # git status does not write the index
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages are English, because they are parsed here
}
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "log.showSignature=false",
    "maintenance.auto=false",
    "submodule.recurse=false",
)
"""Run none of the repository's programs, and no maintenance in the background."""
CONVERSION_KEYS = "core.autocrlf core.eol core.fileMode core.symlinks core.ignoreCase".split()
"""Settings that decide how a file's bytes and mode become a blob."""
ATTRIBUTE_KEYS = ("core.attributesFile", "attr.tree")
"""Settings that name further sources of attributes (gitattributes(5))."""
IDENTITY_KEYS = ("user.name", "user.email")
OBJECT_FORMATS = ("sha1", "sha256")
HEAD_REVISIONS = ("HEAD", "HEAD^{commit}", "HEAD^{tree}")
"""What HEAD names, the commit and its tree; git prints only those whose objects exist."""
PLAIN_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
"""Options for a diff that depends on no settings and runs no program."""
_RECENT = ("--first-parent", "--min-parents=1")
"""Options to list the commits of one branch that have a parent: no root, no shallow boundary."""


def summarize_stderr(stderr: bytes) -> str:
    """Git's messages on one line, each once, without hints. An indented line belongs to the message
    above it. Warnings come last, as the line may be cut off."""
    texts = re.split(r"\n(?!\s)", stderr.decode("utf-8", "replace"))
    unique = dict.fromkeys(" ".join(text.split()) for text in texts if text.strip())
    messages = [message for message in unique if not message.startswith("hint:")]
    messages.sort(key=lambda message: message.startswith("warning:"))
    return "; ".join(messages)[:LONGEST_REASON]


class GitError(Exception):
    """A git command failed; the text is its stderr on one line, ``status`` its exit status."""

    def __init__(self, verb: str, done: CapturedOutput) -> None:
        why = summarize_stderr(done.stderr) or "failed without a message"
        Exception.__init__(self, f"git {verb}: {why}")
        self.status, self.stdout, self.stderr = done.exit_status, done.stdout, done.stderr


class DamagedRepositoryError(GitError, NightshiftError):
    """An object is missing or unreadable: ``E_CONFIG`` unless caught as a GitError."""

    def __init__(self, verb: str, done: CapturedOutput, damage: str) -> None:
        GitError.__init__(self, verb, done)
        NightshiftError.__init__(self, Code.CONFIG, damage)


@dataclass(frozen=True)
class Git:
    """A git program (absolute path) with its whole environment."""

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
        """Run a git command and return its stdout. ``env`` and ``settings`` (key=value) are added
        to this git's own, ``memory`` limits its data (bytes). Raises GitError, and ``E_CONFIG`` if
        git cannot work here at all."""
        argv = self._build_command(settings, verb, *args)
        full_env = {**self.env, **(env or {})}
        done = capture(argv, cwd=cwd, env=full_env, stdin=stdin, timeout_s=timeout_s, memory=memory)
        # A bare name: no git was found on PATH (_build_git).
        if done.exit_status == NOT_FOUND and not self.program.startswith("/"):
            raise build_config_error("git was not found on PATH: install git 2.34 or newer")
        if not done.ok:
            refuse_broken_repository(done.stderr)
            if damage := describe_damage(done.stderr, cwd):
                raise DamagedRepositoryError(verb, done, damage)
            raise GitError(verb, done)
        return done.stdout

    def open_batch_process(
        self, verb: str, *args: str, cwd: Path, env: Mapping[str, str]
    ) -> AbstractContextManager[BatchProcess]:
        """Start a git command that answers one request after another; raises OSError."""
        argv, full_env = self._build_command((), verb, *args), {**self.env, **env}
        return open_batch_process(argv, cwd=cwd, env=full_env, timeout_s=TIMEOUT_S)

    def _build_command(self, settings: tuple[str, ...], *args: str) -> list[str]:
        options = [word for setting in (*_SETTINGS, *settings) for word in ("-c", setting)]
        return [self.program, *options, *args]


def build_isolated_git(home: Path, search_path: str) -> Git:
    """Git without system, user or caller configuration; ``home`` is a private folder for it.

    ``search_path`` has no relative folders and none of the checkout
    (``environment.build_search_path``), so that no program an agent could have written is run.
    """
    return _build_git(home, search_path, "", {"GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_NOSYSTEM": "1"})


def with_machine_config(home: Path, search_path: str, real_home: Path) -> Git:
    """Git with this machine's own configuration (identity, LFS): only before an agent starts."""
    files = (str(real_home / name) for name in (".config/git/config", ".gitconfig"))
    present = filter(os.path.isfile, files)
    quoted = (file.replace("\\", "\\\\").replace('"', '\\"') for file in present)
    config = "".join(f'[include]\n\tpath = "{file}"\n' for file in quoted)
    return _build_git(home, search_path, config, {})


def _build_git(home: Path, search_path: str, config: str, env: Mapping[str, str]) -> Git:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The job may run as another user than the checkout's owner (safe.directory, git-config(1)).
    (home / ".gitconfig").write_text(config + "[safe]\n\tdirectory = *\n")
    program = shutil.which("git", path=search_path) or "git"
    return Git(program, {**_ENVIRONMENT, **env, "HOME": str(home), "PATH": search_path})


# --- paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RepositoryPaths:
    """The absolute paths of a repository's parts.

    ``git_dir`` contains HEAD and the index; it is ``.git`` itself unless that is a file (worktree,
    submodule). ``shallow`` is None if the history is complete. ``objects`` is the repository's own
    object folder, followed by those from which it borrows.
    """

    git_dir: Path
    index: Path
    exclude: Path
    attributes: Path
    shallow: Path | None
    objects: tuple[Path, ...]
    object_format: str

    def list_secrets(self) -> tuple[Path, ...]:
        """Configuration and logs, which may contain credentials. A worktree has two sets of them:
        its own, and that of its main repository."""
        folders = dict.fromkeys((self.git_dir, self.objects[0].parent))
        return tuple(folder / name for folder in folders for name in ("config", "logs"))


def find_repository_paths(git: Git, checkout: Path) -> RepositoryPaths:
    """Find the parts of ``checkout``'s repository. Raises NightshiftError E_CONFIG."""
    return find_paths_commit_and_tree(git, checkout)[0]


def find_paths_and_head(git: Git, checkout: Path) -> tuple[RepositoryPaths, str]:
    """Find the paths of the repository's parts and the checked-out commit, by one process. Raises
    NightshiftError E_CONFIG, also if there is no commit."""
    paths, commit, _ = find_paths_commit_and_tree(git, checkout)
    if not commit:
        raise _build_no_commit_error(checkout)
    return paths, commit


def find_paths_commit_and_tree(git: Git, checkout: Path) -> tuple[RepositoryPaths, str, str]:
    """Find the paths of the repository's parts, the checked-out commit and its tree. Commit and
    tree are "" before the first commit. Raises NightshiftError E_CONFIG."""
    refuse_line_break(checkout)
    if not os.path.lexists(checkout / ".git"):
        raise build_config_error(f"{checkout} is not the top of a git checkout: run in one")
    names = ("index", "info/exclude", "info/attributes", "shallow", "objects")
    arguments = [word for name in names for word in ("--git-path", name)]
    arguments = ["--absolute-git-dir", "--show-object-format", *arguments, "--revs-only"]
    try:
        out = git.run("rev-parse", *arguments, *HEAD_REVISIONS, cwd=checkout)
    except GitError as error:
        text = f"{checkout} is not a git checkout that can be read: {error}"
        raise build_config_error(text) from None
    lines = os.fsdecode(out).rstrip("\n").split("\n")
    if len(lines) < 7 or lines[1] not in OBJECT_FORMATS:
        text = f"{git.program} gives answers that cannot be read: install git 2.34 or newer"
        raise build_config_error(text)
    git_dir, object_format = lines[:2]
    index, exclude, attributes, shallow, objects = (checkout / line for line in lines[2:7])
    paths = RepositoryPaths(
        git_dir=Path(git_dir),
        index=index,
        exclude=exclude,
        attributes=attributes,
        shallow=shallow if shallow.exists() else None,
        objects=list_object_folders(objects.resolve()),
        object_format=object_format,
    )
    head, commit, tree = (*lines[7:], "", "", "")[:3]
    if head and not tree:
        what = "whose tree" if commit else "which"
        damage = f"HEAD is {head[:12]}, {what} is not there"
        raise build_config_error(render_damage(damage, checkout))
    return paths, commit, tree


# --- the checkout ---------------------------------------------------------------------------------


def read_head(git: Git, checkout: Path) -> str:
    """The full id of the checked-out commit. Raises E_CONFIG if there is none."""
    try:
        out = git.run("rev-parse", "--verify", "HEAD^{commit}", cwd=checkout)
    except GitError:
        find_paths_commit_and_tree(git, checkout)  # raises if the checkout itself is the problem
        raise _build_no_commit_error(checkout) from None
    return out.decode().strip()


def _build_no_commit_error(checkout: Path) -> NightshiftError:
    return build_config_error(f"{checkout} has no commit yet: make a first commit")


def list_tracked_files(git: Git, checkout: Path) -> tuple[str, ...]:
    """All paths in the index."""
    return split_names(git.run("ls-files", "-z", cwd=checkout))


def list_ignored(git: Git, checkout: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """The ``paths`` that git ignores and that contain no tracked file."""
    try:
        env = {"GIT_LITERAL_PATHSPECS": "0"}  # check-ignore refuses it, and takes only paths anyway
        out = git.run(
            "check-ignore", "-z", "--stdin", cwd=checkout, stdin=join_names(paths), env=env
        )
    except GitError:  # exit status 1: it ignores none of them (git-check-ignore(1))
        return ()
    ignored = split_names(out)
    tracked = list_tracked_files(git, checkout) if ignored else ()
    return tuple(
        path for path in ignored if not any(file.startswith(f"{path}/") for file in tracked)
    )


def list_revision_files(git: Git, checkout: Path, revision: str) -> tuple[str, ...]:
    """All paths of a revision."""
    arguments = ("-r", "-z", "--name-only", "--full-tree", revision)
    return split_names(git.run("ls-tree", *arguments, cwd=checkout))


def read_blob_sizes(git: Git, checkout: Path, blobs: Iterable[str]) -> Iterator[int | None]:
    """The size of each blob in bytes, in turn; None for one that a partial clone lacks."""
    stdin = "".join(f"{blob}\n" for blob in blobs).encode()
    out = git.run("cat-file", "--buffer", "--batch-check", cwd=checkout, stdin=stdin)
    for line in split_rows(out, b"\n"):
        fields = line.split(b" ")
        yield int(fields[2]) if len(fields) == 3 else None


def read_committed_file(git: Git, checkout: Path, revision: str, path: str) -> bytes | None:
    """A file's bytes in a revision; None if it does not exist or is no regular file."""
    folder, _, name = path.rpartition("/")
    stdin = os.fsencode(f"{revision}:{folder}\n{revision}:{path}\n")
    objects = list(split_objects(git.run("cat-file", "--batch", cwd=checkout, stdin=stdin)))
    if len(objects) == 2 and objects[0]:
        tree_id, tree = objects[0]
        mode, _ = dict(parse_tree(tree, len(tree_id))).get(name, ("", ""))
        if not mode.startswith("100"):
            return None
        if objects[1]:
            _, data = objects[1]
            return data
    # The path has a line break (two requests), or an object is missing, which git's error names.
    listed = git.run("ls-tree", "-z", "--full-tree", revision, "--", path, cwd=checkout)
    for entry in split_names(listed):
        mode, kind, blob = entry.split("\t", 1)[0].split()
        if kind == "blob" and mode != "120000":
            return git.run("cat-file", "blob", blob, cwd=checkout)
    return None


def read_commit_messages(git: Git, checkout: Path, count: int) -> tuple[str, ...]:
    """The full messages of the last commits, without merges, newest first."""
    arguments = ("--no-merges", "-z", "--format=%B", f"--max-count={count}", "HEAD")
    out = git.run("log", *arguments, cwd=checkout)
    return tuple(text.decode("utf-8", "replace").strip() for text in out.split(b"\0") if text)


@dataclass(frozen=True)
class CommitIdentity:
    """A person's name and address, for a commit."""

    name: str
    email: str


def read_identity(git: Git, checkout: Path) -> CommitIdentity | None:
    """The configured ``user.name`` and ``user.email``; None unless both are set."""
    return build_identity(read_settings(git, checkout, *IDENTITY_KEYS))


def build_identity(settings: Mapping[str, str]) -> CommitIdentity | None:
    """The person in these settings, by ``IDENTITY_KEYS``; None unless both are set."""
    name, email = (settings.get(key) for key in IDENTITY_KEYS)
    return CommitIdentity(name, email) if name and email else None


def read_origin(git: Git, checkout: Path) -> str:
    """The URL of the remote ``origin``; "" if there is none."""
    return read_settings(git, checkout, "remote.origin.url").get("remote.origin.url", "")


def read_conversion_config(git: Git, checkout: Path) -> dict[str, str]:
    """The checkout's values of ``CONVERSION_KEYS``."""
    return read_settings(git, checkout, *CONVERSION_KEYS)


def read_settings(git: Git, checkout: Path, *keys: str) -> dict[str, str]:
    """The last value of each key that has one."""
    names = {key.lower(): key for key in keys}  # git prints keys in lower case
    alternatives = "|".join(names).replace(".", r"\.")
    try:
        out = git.run("config", "-z", "--get-regexp", f"^({alternatives})$", cwd=checkout)
    except GitError:
        return {}
    settings = (text.partition("\n") for text in out.decode("utf-8", "replace").split("\0"))
    values = {key: value.strip() for key, _, value in settings}
    return {names[key]: value for key, value in values.items() if value}


def split_names(out: bytes) -> tuple[str, ...]:
    """The paths in an output with a NUL after each."""
    return tuple(filter(None, os.fsdecode(out).split("\0")))


def split_rows(out: bytes, end: bytes = b"\0") -> Iterator[bytes]:
    """The rows of an output, one after the other: a list of half a million takes 100 MB."""
    start = 0
    while (stop := out.find(end, start)) >= 0:
        yield out[start:stop]
        start = stop + 1


def list_setting_files(git: Git) -> frozenset[str]:
    """The files from which git reads its settings; none if that fails, as git then uses none."""
    try:
        listed = git.run("config", "--list", "--show-origin", "--name-only", "-z", cwd=Path("/"))
    except (GitError, NightshiftError):
        return frozenset()
    origins = os.fsdecode(listed).split("\0")
    return frozenset(name.removeprefix("file:") for name in origins if name.startswith("file:"))


def list_recent_files(
    git: Git, checkout: Path, count: int, revision: str = "HEAD"
) -> frozenset[str]:
    """Files touched by the last ``count`` commits of a revision.

    Merges count by their first parent; the root and a shallow boundary do not count.
    """
    shown = ("--name-only", "-z", "--format=", f"--max-count={count}", revision)
    walk = (*_RECENT, "--diff-merges=first-parent")
    return frozenset(split_names(git.run("log", *walk, *PLAIN_DIFF, *shown, cwd=checkout)))


def count_recent_commits(git: Git, checkout: Path, most: int, revision: str = "HEAD") -> int:
    """The number of commits that ``list_recent_files`` would read, up to ``most``."""
    walk = ("--count", *_RECENT, f"--max-count={most}", revision)
    return int(git.run("rev-list", *walk, cwd=checkout))
