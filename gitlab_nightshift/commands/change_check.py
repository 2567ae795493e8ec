"""``nightshift check``: judges any change by the red flags, without a night, an agent or GitLab."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Context, read_change
from gitlab_nightshift.records.verdicts import Check, Finding
from gitlab_nightshift.repository.git import GitError, list_recent_files, read_committed_file
from gitlab_nightshift.repository.private_repository import share_reader
from gitlab_nightshift.repository.tree_objects import resolve_tree
from gitlab_nightshift.repository.worktree import (
    Worktree,
    find_commit,
    find_common_base,
    open_worktree,
    read_messages_between,
    resolve_commit,
    resolve_parent,
    write_staged_tree,
    write_working_tree,
)
from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path, path_exists
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import make_printable

if TYPE_CHECKING:
    from gitlab_nightshift.records.bead_results import CommandResult

_BASE_OF_MERGE_REQUEST = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
_MERGED = ("merged_result", "merge_train")
"""Values of CI_MERGE_REQUEST_EVENT_TYPE for pipelines on a merge commit."""
# At the start of a line, which may be a list item or a quotation in Markdown.
_ALLOW_LINE = compile_lazily(
    r"^[ \t>*-]*nightshift: allow ([a-z][a-z-]{2,40}) because[ \t]+(\S[^\r\n]*)$", re.MULTILINE
)
_LONGEST_TEXT, _LONGEST_REASON = 100_000, 200
"""Characters that are searched, and characters of a reason that are shown."""
_DELEGATION_PREFIX = "nightshift/"
"""Branch prefix of delegations; that of nights is a setting."""


@dataclass(frozen=True)
class Allowance:
    """A line that allows the findings of one flag. ``place`` says which text the line is in; only
    if ``confirmed`` does it lower their level."""

    flag: str
    reason: str
    place: str
    confirmed: bool = False


@dataclass(frozen=True)
class CheckRequest:
    """The arguments of ``check``. ``commit`` is None for the working tree; ``selected`` are the
    only files that may change, if there are any; files of the last ``recent`` commits before the
    change may not."""

    folder: Path
    env: Mapping[str, str]
    commit: str | None = None
    base: str | None = None
    staged: bool = False
    category: str = ""
    selected: tuple[str, ...] = ()
    recent: int = 0


@dataclass(frozen=True)
class Judgement:
    """The findings between ``base`` and ``commit`` (None for the working tree).

    ``top`` is the checkout and ``tree`` the judged tree; with ``ran``, ``commands`` and ``checks``
    are results of running it, and ``incomplete`` is why nothing could be run.
    """

    base: str
    commit: str | None
    findings: tuple[Finding, ...]
    top: Path
    tree: str
    context: Context
    ran: bool = False
    commands: "tuple[CommandResult, ...]" = ()
    checks: tuple[Check, ...] = ()
    incomplete: str = ""

    @property
    def failed(self) -> bool:
        """True if a finding fails the check."""
        return any(finding.level == "fail" for finding in self.findings)


def check(request: CheckRequest) -> Judgement:
    """Judge a change without modifying the checkout or its repository.

    Raises NightshiftError E_CONFIG for what cannot be compared, and for mistakes in the settings.
    """
    with tempfile.TemporaryDirectory(prefix="nightshift-check-") as folder:
        try:
            worktree = open_worktree(request.folder, Path(folder), request.env)
            with share_reader(worktree.repository) as repository:
                return _judge_change(replace(worktree, repository=repository), request)
        except GitError as error:
            raise build_config_error(f"the change cannot be read: {error}") from None


def _judge_change(worktree: Worktree, request: CheckRequest) -> Judgement:
    new, commit = _find_new_side(worktree, request)
    base = _find_base(worktree, request, new, commit)
    settings = _read_settings(worktree, base, request.env)
    if request.category and request.category not in settings.known_categories:
        known = ", ".join(settings.known_categories)
        raise build_config_error(f"--category: no category {request.category!r}; known are {known}")
    context = Context(
        settings,
        request.category,
        tuple(_resolve_selected(worktree, request)),
        _find_recent_files(worktree, base, request.recent),
        request.env.get("CI_CONFIG_PATH", ""),
        by_people=not request.category
        and not _is_of_night(request.env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", ""), settings),
    )
    findings = find_red_flags(read_change(worktree.repository, base, new), context)
    if findings and context.by_people:
        allowances = _list_allowances(worktree, request, base, commit, settings)
        findings = tuple(apply_allowances(findings, tuple(allowances)))
    redacted = tuple(_redact_findings(findings, request.env))
    return Judgement(base, commit, redacted, worktree.top, new, context)


def _list_allowances(
    worktree: Worktree, request: CheckRequest, base: str, commit: str | None, settings: Settings
) -> Iterator[Allowance]:
    """The allowances in the merge request's description and in the change's commit messages."""
    yield from read_description_allowances(request.env, settings)
    newest = commit or worktree.head
    if newest and base not in (newest, worktree.empty_tree):
        for sha, text in read_messages_between(worktree, base, newest):
            yield from read_allowances(text, f"commit {sha[:12]}")


def _redact_findings(findings: Sequence[Finding], env: Mapping[str, str]) -> Iterator[Finding]:
    """Redact secrets: details quote code and commands."""
    if not findings:
        return iter(())
    from gitlab_nightshift.job.job_secrets import read_secrets
    from gitlab_nightshift.redaction.redactor import Redactor

    redact = Redactor(read_secrets(env).values)
    return (Finding(f.name, f.level, f.file, f.line, redact(f.detail)) for f in findings)


def _find_new_side(worktree: Worktree, request: CheckRequest) -> tuple[str, str | None]:
    """The tree to judge, and its commit, None for the working tree."""
    if request.commit:
        commit = resolve_commit(worktree, request.commit)
        return resolve_tree(worktree.repository, commit), commit
    return (write_staged_tree if request.staged else write_working_tree)(worktree), None


def _find_base(worktree: Worktree, request: CheckRequest, new: str, commit: str | None) -> str:
    """The commit to compare with, or the empty tree for a first commit."""
    newest = commit or worktree.head
    if request.base:
        base = resolve_commit(worktree, request.base)
        return find_common_base(worktree, base, newest) if newest else base
    if commit:
        return resolve_parent(worktree, commit)
    if not newest:
        return worktree.empty_tree
    if request.staged:
        return newest
    if request.env.get(_BASE_OF_MERGE_REQUEST):
        return _find_merge_request_base(worktree, request.env, newest)
    # Without uncommitted changes, as in a job, the last commit is the change.
    return newest if worktree.head_tree != new else resolve_parent(worktree, newest)


def _find_merge_request_base(worktree: Worktree, env: Mapping[str, str], head: str) -> str:
    """The base of the merge request whose pipeline this is."""
    # A merged results pipeline runs on a merge commit whose first parent is the target branch
    # (docs.gitlab.com/ci/pipelines/merged_results_pipelines). GitLab names the older commit where
    # the source branch began.
    if env.get("CI_MERGE_REQUEST_EVENT_TYPE") in _MERGED and find_commit(worktree, f"{head}^2"):
        return resolve_parent(worktree, head)
    return resolve_commit(worktree, env[_BASE_OF_MERGE_REQUEST])


def _read_settings(worktree: Worktree, base: str, env: Mapping[str, str]) -> Settings:
    """The base's settings: a change must not decide how it is judged."""
    text = read_committed_file(worktree.repository.git, worktree.repository.folder, base, FILE_NAME)
    if text is None:
        return load_settings(env)
    try:
        return load_settings(env, ConfigFile(FILE_NAME, text.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise build_config_error(f"{FILE_NAME}: not UTF-8: {error}") from None


def _resolve_selected(worktree: Worktree, request: CheckRequest) -> Iterator[str]:
    """The selected files as paths in the repository; each is given relative to the current folder,
    or to the top."""
    top = worktree.top.resolve()
    for given in request.selected:
        place = Path(os.path.normpath(request.folder.resolve() / given))
        inside = place.is_relative_to(top) and (path_exists(place) or not path_exists(top / given))
        yield (
            format_path(str(place.relative_to(top)))
            if inside
            else format_path(os.path.normpath(given))
        )


def _find_recent_files(worktree: Worktree, base: str, count: int) -> frozenset[str]:
    if not count or base == worktree.empty_tree:
        return frozenset()
    repository = worktree.repository
    found = list_recent_files(repository.git, repository.folder, count, base)
    return frozenset(map(format_path, found))


def read_allowances(text: str, place: str, confirmed: bool = False) -> Iterator[Allowance]:
    """The allowances in one text, with printable reasons."""
    for flag, reason in _ALLOW_LINE.findall(text[:_LONGEST_TEXT]):
        shown = make_printable(reason.strip())[:_LONGEST_REASON]
        yield Allowance(flag, shown, place, confirmed)


def _is_of_night(branch: str, settings: Settings) -> bool:
    """True for a branch of a night or a delegation, on which nothing can be allowed."""
    return branch.startswith((settings.branch_prefix, _DELEGATION_PREFIX))


def read_description_allowances(env: Mapping[str, str], settings: Settings) -> Iterator[Allowance]:
    """The allowances in the description of the pipeline's merge request.

    Its author and Developers can edit a description, so its allowances count if the author is a
    Developer and no bot. GitLab is asked for that only if there are allowances and a token; without
    an answer they are shown but do not count.
    """
    branch = env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "")
    description = env.get("CI_MERGE_REQUEST_DESCRIPTION", "")
    if _is_of_night(branch, settings) or not _ALLOW_LINE.search(description[:_LONGEST_TEXT]):
        return
    place = "the merge request's description"
    from gitlab_nightshift.job.job_secrets import read_secrets

    token = read_secrets(env).gitlab_token
    confirmed = _read_confirmed_description(env, token, settings) if token else ""
    yield from read_allowances(confirmed or description, place, bool(confirmed))


def _read_confirmed_description(env: Mapping[str, str], token: str, settings: Settings) -> str:
    """The description as GitLab has it now; "" if nothing in it may count: its author is a bot or
    no Developer, the branch is a night's, or GitLab does not answer."""
    from gitlab_nightshift.gitlab.accounts import DEVELOPER
    from gitlab_nightshift.gitlab.project import open_project
    from gitlab_nightshift.job.job_facts import read_job
    from gitlab_nightshift.records.request import CommentAddress

    job, number = read_job(env, settings.repo_url), env.get("CI_MERGE_REQUEST_IID", "")
    if not re.fullmatch(r"[0-9]{1,18}", number):
        return ""
    try:
        threads = open_project(job.server_url, job.project_id, token, patience_s=30.0).threads
        merge_request = threads.find_noteable(CommentAddress("merge_requests", int(number), 0))
        if merge_request is None or _is_of_night(merge_request.source_branch, settings):
            return ""
        author = merge_request.author_id
        trusted = threads.read_level(author) >= DEVELOPER and not threads.is_bot(author)
        return merge_request.description if trusted else ""
    except NightshiftError:
        return ""


def apply_allowances(
    findings: Sequence[Finding], allowances: Sequence[Allowance]
) -> Iterator[Finding]:
    """The findings; those whose flag is allowed get the reason in their detail, and a confirmed
    allowance makes a failing one a warning."""
    for finding in findings:
        given = [each for each in allowances if each.flag == finding.name]
        # Anybody can push a commit message that allows something: a confirmed allowance goes first.
        best = next((each for each in given if each.confirmed), given[0] if given else None)
        yield _apply_allowance(finding, best) if best else finding


def _apply_allowance(finding: Finding, allowance: Allowance) -> Finding:
    doubt = "" if allowance.confirmed else ", not confirmed"
    detail = f"{finding.detail} Allowed because {allowance.reason} ({allowance.place}{doubt})"
    lowered = allowance.confirmed and finding.level == "fail"
    return replace(finding, level="warn" if lowered else finding.level, detail=detail)
