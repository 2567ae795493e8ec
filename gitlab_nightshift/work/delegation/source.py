"""The repository of a delegation: found, claimed for one run at a time, and asked for its refs."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host import aside
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import NETWORK, search_path
from gitlab_nightshift.host.git import Git, GitError, Place
from gitlab_nightshift.host.installation import refuse_installation_in
from gitlab_nightshift.host.paths import short_parent, within
from gitlab_nightshift.host.private import collect
from gitlab_nightshift.host.remote import Answer, Server, fetch_ref
from gitlab_nightshift.host.repair import repair
from gitlab_nightshift.host.repository import Repository
from gitlab_nightshift.records.delegation import Payload, Repo
from gitlab_nightshift.settings import Job

WORKSPACES = "NIGHTSHIFT_WORKSPACES"
DEPTH = 50
"""Commits of a repository that is fetched: enough to read its style."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Source:
    """A checkout that a delegation starts from.

    ``git`` is pristine, ``machine`` knows this machine's filters and identity; ``fetched``: it is
    our own private clone of a URL, at the commit that was asked for, its default branch at
    ``head``.
    """

    top: Path
    place: Place
    git: Git
    machine: Git
    head: str
    spare: Path
    fetched: bool = False

    @property
    def secrets(self) -> tuple[Path, ...]:
        """What holds credentials beside a repository: no agent may read it. The last is where a
        runner keeps those of a job."""
        folders = dict.fromkeys((self.place.git_dir, self.place.objects[0].parent))
        own = [folder / name for folder in folders for name in ("config", "logs")]
        return (*own, self.top.with_name(f"{self.top.name}.tmp"))


@contextlib.contextmanager
def open_source(
    payload: Payload, folder: Path, env: Mapping[str, str], private: Path, job: Job
) -> Iterator[Source]:
    """The repository that the payload names, claimed as long as the block lasts.

    First what a killed run left there is undone. ``in_place`` claims it when it is opened. Raises
    NightshiftError: ``E_CONFIG``, ``E_WORKSPACE_DIRTY`` where another run works there.
    """
    if payload.repo.type == "git_url":
        yield _fetched(payload, env, private)
        return
    top = _local(payload.repo, folder, env)
    _check_owner(top, job)
    refuse_installation_in(top)
    tidy(private.parent, top)
    path = search_path(env, top)
    repair(top, private=private, search_path=path)
    source = _opened(top, env, private)
    if payload.workspace.checkout_mode == "in_place":
        yield source
        return
    with claimed(source, job.run_id):
        yield source


@contextlib.contextmanager
def claimed(source: Source, run_id: str) -> Iterator[None]:
    """No other run works in the checkout as long as the block lasts. Raises as ``aside.claim``."""
    folder = aside.choose_place(source.top, source.spare, moving=False)
    with aside.claimed(source.top, folder, source.place, source.head, run_id):
        yield


def _opened(top: Path, env: Mapping[str, str], private: Path) -> Source:
    path = search_path(env, top)
    git = git_verbs.pristine(private / "git", path)
    home = Path(env.get("HOME", "/"))
    machine = git_verbs.with_machine_config(private / "machine-git", path, home)
    place, head = git_verbs.place_and_head(git, top)
    return Source(top, place, git, machine, head, private.parent)


# --- where it is ----------------------------------------------------------------------------------


def _local(repo: Repo, folder: Path, env: Mapping[str, str]) -> Path:
    root = env.get(WORKSPACES, "")
    if repo.type == "workspace_id":
        return _workspace(repo.value, root)
    top = (folder / repo.value).resolve()
    if root and not top.is_relative_to(Path(root).resolve()):
        raise config_error(f"repo.value: {top} is not below {WORKSPACES} ({root})")
    if not top.is_dir():
        raise config_error(f"repo.value: {top} is no folder")
    return top


def _workspace(name: str, root: str) -> Path:
    if not root:
        raise config_error(f"repo: workspace_id needs {WORKSPACES}, the folder of all workspaces")
    if not _NAME.fullmatch(name):
        raise config_error("repo.value: letters, digits, '.', '_' and '-' make a workspace_id")
    top = Path(root).resolve() / name
    if top.is_symlink() or not top.is_dir():
        raise config_error(f"repo.value: {WORKSPACES} ({root}) holds no folder {name}")
    return top


def _check_owner(top: Path, job: Job) -> None:
    """A repository can name programs for git to run, so that git itself trusts no other user's.

    A runner checks out as one user what another one's job works on.
    """
    if not job.in_ci and top.stat().st_uid != os.geteuid():
        raise config_error(f"repo.value: {top} belongs to another user, who is not trusted")


def tidy(parent: Path, checkout: Path) -> None:
    """Remove what killed runs in a checkout left below ``parent``.

    Twice, since what belongs to a private checkout can go only after it.
    """
    for place in 2 * (parent, short_parent(parent)):
        collect(place, checkout, lambda _left: None)


# --- by URL ---------------------------------------------------------------------------------------


def _fetched(payload: Payload, env: Mapping[str, str], private: Path) -> Source:
    url = _checked_url(payload.repo.value)
    top = private / "source"
    top.mkdir()
    git = git_verbs.pristine(private / "git", search_path(env, top))
    git.run("init", "--quiet", "--template=", str(top), cwd=top)
    repository = Repository(git, top / ".git")
    server = Server(url, "", env={name: env[name] for name in NETWORK if env.get(name)})
    commit = _fetch(repository, server, payload.workspace.base_ref)
    (top / ".git/HEAD").write_text(f"{commit}\n")
    opened = _opened(top, env, private)
    return Source(top, opened.place, git, opened.machine, commit, private.parent, fetched=True)


def _checked_url(text: str) -> str:
    """The URL; no message repeats one, since there may be a credential in it."""
    parts = urlsplit(text)
    if "@" in parts.netloc:
        raise config_error("repo.value: a URL with credentials is not taken: they would be kept")
    if parts.scheme != "https":
        why = "what else git knows reads files, keys or agents of this machine"
        raise config_error(f"repo.value: only https://host/path is taken: {why}")
    if not parts.hostname or parts.query or parts.fragment or not text.isascii() or " " in text:
        raise config_error("repo.value: https://host/path is expected, nothing else")
    return text


def _fetch(repository: Repository, server: Server, ref: str) -> str:
    names = [f"refs/heads/{ref}", f"refs/tags/{ref}"] if ref else ["HEAD"]
    if ref and not is_ref(repository.git, names[0], repository.folder):
        raise config_error(f"base_ref: {ref!r} is no name of a branch or tag")
    for name in names:
        done = fetch_ref(repository, server, name, DEPTH)
        if done.ok:
            return done.commit
        if done.answer is not Answer.REJECTED:
            raise config_error(f"repo.value: it cannot be fetched: {done.message}")
    raise config_error(f"base_ref: {ref!r} is no branch or tag there")


# --- refs -----------------------------------------------------------------------------------------


def base_of(source: Source, payload: Payload) -> str:
    """The commit to start from. Raises NightshiftError ``E_CONFIG``."""
    workspace = payload.workspace
    ref = workspace.base_ref
    if source.fetched or not ref:
        return source.head
    found = commit_of(source, ref)
    if found is None:
        hint = "; the clone is shallow, fetch more" if source.place.shallow else ""
        raise config_error(f"base_ref: {ref!r} names no commit here{hint}")
    if workspace.checkout_mode != "worktree" and found != source.head:
        mode = workspace.checkout_mode
        raise config_error(
            f"base_ref: {mode} works on what is checked out ({source.head[:12]}),"
            f" but {ref!r} is {found[:12]}: check it out, or use checkout_mode worktree"
        )
    return found


def commit_of(source: Source, ref: str) -> str | None:
    """The full id of the commit that a ref names, None where it names none."""
    asked = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    try:
        return source.git.run("rev-parse", *asked, cwd=source.top).decode().strip()
    except GitError:
        return None


def is_ref(git: Git, name: str, folder: Path) -> bool:
    """True for a full name that git takes as a ref's."""
    try:
        git.run("check-ref-format", name, cwd=folder)
    except GitError:
        return False
    return True


def branch_of(source: Source, payload: Payload, run_id: str) -> str:
    """A branch that is not there yet: the one that is asked for, else one of our own.

    Raises NightshiftError ``E_CONFIG``: a branch is never overwritten.
    """
    wanted = payload.workspace.branch_name
    if not wanted:
        own = f"nightshift/{run_id}"
        names = (own, *(f"{own}-{number}" for number in range(2, 100)))
        wanted = next((name for name in names if not _is_taken(source, name)), "")
    if wanted.startswith("-") or not is_ref(source.git, f"refs/heads/{wanted}", source.top):
        raise config_error(f"branch_name: {wanted!r} is no name for a branch")
    if _is_taken(source, wanted):
        raise config_error(f"branch_name: {wanted!r} is taken: it is never overwritten")
    return wanted


def _is_taken(source: Source, name: str) -> bool:
    """A branch of that name, or of one that git keeps in the same place (``a`` and ``a/b``)."""
    asked = ("for-each-ref", "--format=%(refname)", "refs/heads")
    out = source.git.run(*asked, cwd=source.top)
    taken = os.fsdecode(out).split()
    full = f"refs/heads/{name}"
    return any(within(ref, full) or within(full, ref) for ref in taken)


def check_subdir(source: Source, base: str, subdir: str) -> str:
    """The folder as git writes it. Raises NightshiftError ``E_CONFIG`` where it is none."""
    name = "/".join(part for part in subdir.split("/") if part not in ("", "."))
    if not name:
        return ""
    out = source.git.run("ls-tree", "-d", "-z", "--full-tree", base, "--", name, cwd=source.top)
    if not out.startswith(b"040000 tree"):
        raise config_error(f"workspace_subdir: {subdir!r} is no folder of {base[:12]}")
    return name
