"""The repository of a delegation: finds, repairs or fetches it, resolves its refs, and checks out
the workspace."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.delegation_records import Payload, Repo
from gitlab_nightshift.repository.changed_files import list_changed_files, refuse_changed
from gitlab_nightshift.repository.checkout_restore import repair
from gitlab_nightshift.repository.delegated_repository import DelegationSource, is_checkout_shared
from gitlab_nightshift.repository.git import (
    Git,
    GitError,
    build_isolated_git,
    find_paths_and_head,
    list_tracked_files,
    read_conversion_config,
    with_machine_config,
)
from gitlab_nightshift.repository.git_formats import UNBORN_HEAD, write_git_folder
from gitlab_nightshift.repository.prepared_checkout import refuse_tracked
from gitlab_nightshift.repository.private_checkout import check_out, commit_changed, copy_checkout
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.remote import GitServer, TransferStatus, fetch_ref
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import path_exists, resolve_path, within
from gitlab_nightshift.system.network_settings import build_network_env
from gitlab_nightshift.system.private_folders import remove_all_leftovers
from gitlab_nightshift.system.processes import refuse_installation_in
from gitlab_nightshift.text.lazy_patterns import compile_lazily

WORKSPACES = "NIGHTSHIFT_WORKSPACES"
"""The variable that names the folder of all workspaces."""
DEPTH = 50
"""Commits to fetch of a repository: enough to read its style."""
_URL_EXPECTED = "repo.value: expected https://host/path and nothing else"
_WORKSPACE_ID = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def find_checkout(
    payload: Payload, folder: Path, env: Mapping[str, str], private: Path, job: JobFacts
) -> Path | None:
    """The checkout on this machine that the payload names, repaired if a run was killed in it; None
    if the payload names a URL.

    Raises NightshiftError: ``E_CONFIG``, ``E_WORKSPACE_DIRTY`` if another run works in it.
    """
    if payload.repo.type == "git_url":
        return None
    top = _find_local_checkout(payload.repo, folder, env)
    # First of all: git must not run in another user's repository, whose settings can make it start
    # programs (safe.directory, git-config(1)). Except in a job: a runner may check out as one user
    # and run the job as another.
    if not job.in_ci and top.stat().st_uid != os.geteuid():
        raise build_config_error(f"repo.value: {top} belongs to another user, who is not trusted")
    refuse_installation_in(top)
    remove_all_leftovers(private.parent, top)
    try:
        repair(top, private=private, search_path=build_search_path(env, top))
    except NightshiftError:
        # Delegations that only read a checkout may run in it at the same time.
        only_reads = payload.workspace.checkout_mode != "in_place"
        if not only_reads or not is_checkout_shared(top, private.parent):
            raise
    return top


def open_source(
    payload: Payload, top: Path | None, folder: Path, env: Mapping[str, str], private: Path
) -> DelegationSource:
    """The repository of the checkout ``top``, or without one that of the payload's URL. Raises
    NightshiftError ``E_CONFIG``."""
    if top is None:
        return _fetch_source(payload, env, build_network_env(env, folder, private), private)
    return _build_source(top, env, private)


def _build_source(top: Path, env: Mapping[str, str], private: Path) -> DelegationSource:
    path, home = build_search_path(env, top), Path(env.get("HOME", "/"))
    git = build_isolated_git(private / "git", path)
    machine_git = with_machine_config(private / "machine-git", path, home)
    paths, head = find_paths_and_head(git, top)
    return DelegationSource(top, paths, git, machine_git, head, private.parent)


# --- checkouts ------------------------------------------------------------------------------------


def _find_local_checkout(repo: Repo, folder: Path, env: Mapping[str, str]) -> Path:
    root = env.get(WORKSPACES, "")
    if repo.type == "workspace_id":
        return _find_workspace(repo.value, root)
    top = resolve_path(folder / repo.value)
    if root and not top.is_relative_to(Path(root).resolve()):
        raise build_config_error(f"repo.value: {top} is not below {WORKSPACES} ({root})")
    if not (path_exists(top) and top.is_dir()):
        raise build_config_error(f"repo.value: {top} is not a folder")
    return top


def _find_workspace(name: str, root: str) -> Path:
    if not root:
        raise build_config_error(
            f"repo: workspace_id needs {WORKSPACES}, the folder of all workspaces"
        )
    if not _WORKSPACE_ID.fullmatch(name):
        raise build_config_error(
            "repo.value: a workspace_id consists of letters, digits, '.', '_' and '-'"
        )
    top = Path(root).resolve() / name
    if top.is_symlink() or not top.is_dir():
        raise build_config_error(f"repo.value: {WORKSPACES} ({root}) has no folder {name}")
    return top


# --- URLs -----------------------------------------------------------------------------------------


def _fetch_source(
    payload: Payload, env: Mapping[str, str], network_env: Mapping[str, str], private: Path
) -> DelegationSource:
    url = _check_url(payload.repo.value)
    top = private / "source"
    top.mkdir()
    git = build_isolated_git(private / "git", build_search_path(env, top))
    write_git_folder(top / ".git", {"core.bare": "false"}, head=UNBORN_HEAD)
    repository = Repository(git, top / ".git")
    server = GitServer(url, "", env=network_env)
    commit = _fetch(repository, server, payload.workspace.base_ref)
    (top / ".git/HEAD").write_text(f"{commit}\n")
    source = _build_source(top, env, private)
    return dataclasses.replace(source, git=git, head=commit, fetched=True)


def _check_url(text: str) -> str:
    """The URL, if it is https and holds no credential. Raises NightshiftError ``E_CONFIG``."""
    # No message may repeat a URL, which may hold a credential; ValueError's would.
    try:
        parts = urlsplit(text)
    except ValueError:
        raise build_config_error(_URL_EXPECTED) from None
    if "@" in parts.netloc:
        raise build_config_error(
            "repo.value: URLs with credentials are refused, because the credentials would be stored"
        )
    if parts.scheme != "https":
        why = "other protocols would read files, keys or agents of this machine"
        raise build_config_error(f"repo.value: only https://host/path is allowed: {why}")
    if not parts.hostname or parts.query or parts.fragment or not text.isascii() or " " in text:
        raise build_config_error(_URL_EXPECTED)
    return text


def _fetch(repository: Repository, server: GitServer, ref: str) -> str:
    """Fetch a branch, a tag or, without a ref, the default branch. Returns the commit's id."""
    full_names = [f"refs/heads/{ref}", f"refs/tags/{ref}"] if ref else ["HEAD"]
    if ref and not is_valid_ref(repository.git, full_names[0], repository.folder):
        raise build_config_error(f"base_ref: {ref!r} is not the name of a branch or tag")
    for name in full_names:
        fetched = fetch_ref(repository, server, name, DEPTH)
        if fetched.ok:
            return fetched.commit
        if fetched.status is not TransferStatus.REJECTED:
            raise build_config_error(f"repo.value: it cannot be fetched: {fetched.message}")
    raise build_config_error(f"base_ref: {ref!r} is not a branch or tag of it")


# --- refs -----------------------------------------------------------------------------------------


def find_base(source: DelegationSource, payload: Payload) -> str:
    """The commit to start from. Raises NightshiftError ``E_CONFIG``."""
    workspace = payload.workspace
    ref = workspace.base_ref
    if source.fetched or not ref:
        return source.head
    commit = find_commit(source, ref)
    if commit is None:
        hint = "; the clone is shallow, fetch more" if source.paths.shallow else ""
        raise build_config_error(f"base_ref: {ref!r} is not a commit here{hint}")
    mode = workspace.checkout_mode
    if mode != "worktree" and commit != source.head:
        raise build_config_error(
            f"base_ref: {mode} works on what is checked out ({source.head[:12]}),"
            f" but {ref!r} is {commit[:12]}: check it out, or use checkout_mode worktree"
        )
    return commit


def find_commit(source: DelegationSource, ref: str) -> str | None:
    """The full id of the commit that a ref names, None if it names none."""
    # ^{commit} also peels tags; --end-of-options keeps a ref from being an option (gitcli(7)).
    arguments = ("--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    try:
        return source.git.run("rev-parse", *arguments, cwd=source.top).decode().strip()
    except GitError:
        return None


def is_valid_ref(git: Git, full_name: str, folder: Path) -> bool:
    """True for a full ref name that git accepts."""
    try:
        git.run("check-ref-format", full_name, cwd=folder)
    except GitError:
        return False
    return True


def choose_branch(source: DelegationSource, payload: Payload, run_id: str) -> str:
    """A branch that does not exist yet: the requested one, else one that this program names.

    Raises NightshiftError ``E_CONFIG``: a branch is never overwritten.
    """
    branch = payload.workspace.branch_name
    if not branch:
        default = f"nightshift/{run_id}"
        names = (default, *(f"{default}-{number}" for number in range(2, 100)))
        branch = next((name for name in names if not _is_taken(source, name)), "")
    if branch.startswith("-") or not is_valid_ref(source.git, f"refs/heads/{branch}", source.top):
        raise build_config_error(f"branch_name: {branch!r} is not a valid branch name")
    if _is_taken(source, branch):
        raise build_config_error(f"branch_name: {branch!r} already exists and is never overwritten")
    return branch


def _is_taken(source: DelegationSource, name: str) -> bool:
    """True if a branch has that name, or one that conflicts with it."""
    out = source.git.run("for-each-ref", "--format=%(refname)", "refs/heads", cwd=source.top)
    refs, full = os.fsdecode(out).split(), f"refs/heads/{name}"
    # a and a/b cannot both be files below refs/heads (gitrepository-layout(5)).
    return any(within(ref, full) or within(full, ref) for ref in refs)


def check_subdir(source: DelegationSource, base: str, subdir: str) -> str:
    """The path of ``subdir`` as git writes it, "" for the top. Raises NightshiftError ``E_CONFIG``
    if the base has no such folder."""
    name = "/".join(part for part in subdir.split("/") if part not in ("", "."))
    if not name:
        return ""
    out = source.git.run("ls-tree", "-d", "-z", "--full-tree", base, "--", name, cwd=source.top)
    if not out.startswith(b"040000 tree"):  # a folder's mode; a submodule is 160000 commit
        raise build_config_error(f"workspace_subdir: {subdir!r} is not a folder of {base[:12]}")
    return name


@dataclass(frozen=True)
class DelegationWorkspace:
    """The checkout in which the task is done. ``base`` is the commit that work starts from;
    ``has_local_changes``: that commit holds uncommitted changes of the caller."""

    path: Path
    base: str
    has_local_changes: bool = False


def check_clean(source: DelegationSource, payload: Payload, output_dir: str) -> None:
    """Raise ``E_WORKSPACE_DIRTY`` if uncommitted changes would be used although not allowed."""
    workspace = payload.workspace
    if workspace.checkout_mode != "worktree" and workspace.clean_before:
        refuse_changed(source.machine_git, source.top)
        refuse_tracked(list_tracked_files(source.git, source.top), output_dir)


def make_workspace(
    source: DelegationSource, payload: Payload, base: str, path: Path, output_dir: str
) -> DelegationWorkspace:
    """The workspace: the caller's checkout for ``in_place``, else a private one that is created at
    ``path``. Raises NightshiftError."""
    mode = payload.workspace.checkout_mode
    if mode == "in_place":
        return DelegationWorkspace(source.top, base)
    config = read_conversion_config(source.git, source.top)
    if mode == "worktree":
        check_out(source.git, path, source.paths, base, config)
        return DelegationWorkspace(path, base)
    copy_checkout(source.git, path, source.paths, base, config, source.top, output_dir)
    changed = list_changed_files(source.machine_git, path)
    if not changed:
        return DelegationWorkspace(path, base)
    # Committed only in the private checkout, so that work starts from the caller's state.
    try:
        commit = commit_changed(source.machine_git, path, changed)
    except GitError as error:
        text = f"the local changes cannot be copied: {error}"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text) from None
    return DelegationWorkspace(path, commit, has_local_changes=True)
