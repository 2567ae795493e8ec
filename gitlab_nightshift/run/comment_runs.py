"""Runs that a comment or an open merge request in GitLab asks for, and the replies to them."""

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.threads import Threads, read_reply_marker
from gitlab_nightshift.job.job_facts import JobFacts, read_trigger_payload
from gitlab_nightshift.policy.prompts import BEADS
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Bundle, Plan, Publication
from gitlab_nightshift.records.request import CommentAddress, TaskRequest
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.repository.changed_files import refuse_changed
from gitlab_nightshift.repository.commit_switch import build_pack, check_out_temporarily
from gitlab_nightshift.repository.git import find_repository_paths, read_head
from gitlab_nightshift.repository.private_repository import create_private_repository
from gitlab_nightshift.repository.remote import fetch
from gitlab_nightshift.run.session_opening import locate_product
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.load import override_settings
from gitlab_nightshift.stages.plan.comment_request import (
    DeclinedRequest,
    EditedIssue,
    IgnoredTrigger,
    read_request,
    read_webhook,
)
from gitlab_nightshift.stages.plan.upkeep import find_upkeep_of_run
from gitlab_nightshift.stages.publish import thread_reply
from gitlab_nightshift.stages.publish.escaping import clean
from gitlab_nightshift.stages.publish.publish_context import build_git_server
from gitlab_nightshift.stages.report.run_result import build_run_result

REPLY_PATIENCE_S = 30.0
"""How long failing requests for one reply are retried."""
SOURCE = "the comment"
"""The source of settings that a comment requests, in messages."""
PACK = "plan.pack"
"""The file beside the plan with the commits of a requested branch."""

CheckedComment = TaskRequest | DeclinedRequest | IgnoredTrigger


@dataclass(frozen=True)
class TriggerContext:
    """What triggered a run, and GitLab's project (None without a token). ``comment`` is the comment
    that did; ``edited``: an edited issue did, on whose dashboard a box may be ticked."""

    project: Project | None = None
    comment: CheckedComment | None = None
    edited: bool = False

    @property
    def request(self) -> TaskRequest | None:
        """The comment's request; None without one, or if it was declined or ignored."""
        return self.comment if isinstance(self.comment, TaskRequest) else None


def read_trigger_context(session: Session) -> TriggerContext:
    """Check the token's rights, and read the comment that triggered this run, if there is one.
    Raises NightshiftError for an unusable token."""
    project = find_project(session)
    comment = _read_comment(session, project)
    if isinstance(comment, EditedIssue):
        return TriggerContext(project, edited=True)
    return TriggerContext(project, comment)


def find_project(session: Session) -> Project | None:
    """GitLab's project with the token's rights checked; None without a token."""
    job = session.job
    if not session.secrets.gitlab_token:
        return None
    if not job.server_url or not job.project_id:
        raise build_config_error(
            "which project is this? Outside CI, set repo_url to its web address"
        )
    project = session.open_project()
    project.check_access()
    return project


def _read_comment(session: Session, project: Project | None) -> CheckedComment | EditedIssue | None:
    if not session.job.trigger_payload:
        return None
    body = read_trigger_payload(session.job)
    if body is None:
        return IgnoredTrigger("the file of TRIGGER_PAYLOAD cannot be read, or is too large")
    event = read_webhook(body, session.job.project_id)
    if not isinstance(event, CommentAddress):
        return event
    if project is None:
        return IgnoredTrigger("there is no GITLAB_TOKEN to read the comment with")
    comment = read_request(event, project, session.settings, session.job.run_id, session.redact)
    if isinstance(comment, TaskRequest):
        try:
            _apply_request(session, comment)  # raises for values that the settings do not allow
        except NightshiftError as error:
            return DeclinedRequest(error.message, comment.place)
    return comment


def find_started_upkeep(session: Session, bundle: Bundle) -> TriggerContext:
    """The upkeep that this run has started on the branch of another job's bundle. Raises
    NightshiftError if GitLab does not answer."""
    branch = bundle.target_branch
    if not branch.startswith(session.settings.branch_prefix):
        return TriggerContext()
    project = find_project(session)
    if project is None:
        return TriggerContext()
    return TriggerContext(project, find_upkeep_of_run(project, branch, session.job.run_id))


# --- the session of a request -----------------------------------------------------------------


@contextlib.contextmanager
def open_request_session(session: Session, request: TaskRequest | None) -> Iterator[Session]:
    """The session with a comment's request applied to its settings. During the block the head of
    the requested branch is checked out.

    Raises NightshiftError if the branch cannot be fetched.
    """
    if request is None:
        yield session
        return
    request_session = _apply_request(session, request)
    head = read_head(session.git, session.checkout) if request.head else ""
    if request.head == head:
        yield request_session
        return
    refuse_changed(session.machine_git, session.checkout)
    pack = _fetch_pack(session, request, head)
    with check_out_temporarily(session.git, session.checkout, request.head, pack):
        # A copy of KnownCheckout has an empty cache: nothing read before the switch.
        yield replace(request_session, known_checkout=replace(session.known_checkout))


def _apply_request(session: Session, request: TaskRequest) -> Session:
    """The session with the request's task, agent, models and branch. Raises ``E_CONFIG``."""
    values: dict[str, object] = {"task": request.task}
    if request.provider:
        values["agent"] = request.provider
    if request.model:
        values |= {f"models.{bead}": request.model for bead in BEADS}
    if request.dry_run:
        values["dry_run"] = True
    job = session.job
    if request.branch:
        values["target_branch"] = request.branch
        job = replace(job, commit_sha=request.head, ref_name=request.branch)
    return replace(session, job=job, settings=override_settings(session.settings, values, SOURCE))


def _fetch_pack(session: Session, request: TaskRequest, base: str) -> bytes:
    """The branch's commits that the checkout lacks, as a pack: fetched with the token, or, without
    one, found beside the plan, where an earlier job wrote it."""
    if not session.secrets.gitlab_token:
        return locate_product(session, None, PACK).read_bytes()
    with tempfile.TemporaryDirectory(prefix="branch-", dir=session.private) as folder:
        source = find_repository_paths(session.git, session.checkout)
        repository = create_private_repository(session.git, Path(folder) / "repository.git", source)
        fetched = fetch(repository, build_git_server(session), request.branch)
        if not fetched.ok:
            text = f"branch {request.branch} could not be fetched: {fetched.message}"
            raise NightshiftError(Code.PUBLISH, text)
        if fetched.commit != request.head:
            raise NightshiftError(Code.PUBLISH, f"branch {request.branch} is moving: try again")
        pack = build_pack(repository, request.head, base)
    (session.results / PACK).write_bytes(pack)
    return pack


# --- replies ----------------------------------------------------------------------------------


def add_request_to_plan(plan: Plan, comment: CheckedComment | None) -> Plan:
    """Add the comment's request to the plan, or why there is nothing to do."""
    if comment is None:
        return plan
    if isinstance(comment, TaskRequest):
        return replace(plan, request=comment)
    return replace(plan, scheduled="", categories=(), left_out=(), task="", skip=comment.why)


def reply_started(session: Session, plan: Plan, comment: CheckedComment | None) -> bool:
    """Reply that the run starts, or why it does not. False if a reply could not be posted."""
    if isinstance(comment, DeclinedRequest):
        return _decline(session, comment)
    if isinstance(comment, TaskRequest) and not plan.skip:
        return _reply_to_all(session, comment, thread_reply.render_started_reply)
    return True


def reply_failed(session: Session, bundle: Bundle) -> None:
    """Reply to the comment of a run that failed before its work, or lost the bundle. The comment is
    read here again, as the run may have failed before reading it."""
    if not (session.job.trigger_payload and session.secrets.gitlab_token):
        return
    try:
        comment = read_trigger_context(session).comment
    except NightshiftError as error:
        session.emit(Note(f"could not reply in the thread: {error.message}", warning=True))
        return
    if isinstance(comment, DeclinedRequest):
        _decline(session, comment)
    elif isinstance(comment, TaskRequest):
        reply_result(session, comment, build_run_result(bundle, None), bundle, None)


def reply_result(
    session: Session,
    request: TaskRequest | None,
    result: RunResult,
    bundle: Bundle,
    published: Publication | None,
    patch: str = "",
) -> None:
    """Reply to a request with the result; ``patch`` is the change."""
    if request:
        # Redact before escaping, which would change the characters of a secret.
        answers = map_texts(bundle.answers, lambda text: session.redact(clean(text)))
        bundle = replace(bundle, answers=answers)
        ending = thread_reply.RunEnding(result, bundle, published, patch)
        _reply_to_all(session, request, functools.partial(thread_reply.render_result_reply, ending))


def _decline(session: Session, comment: DeclinedRequest) -> bool:
    text = thread_reply.render_declined_reply(comment.why, comment.place, session.job)
    return _reply(session, comment.place, text)


def _reply_to_all(
    session: Session,
    request: TaskRequest,
    render: Callable[[TaskRequest, CommentAddress, JobFacts], str],
) -> bool:
    comments = (request.place, *request.also)
    posted = [_reply(session, each, render(request, each, session.job)) for each in comments]
    return all(posted)


def _reply(session: Session, comment: CommentAddress, body: str) -> bool:
    """Post a reply, or edit the existing one. Failure is only a warning; returns False then."""
    try:
        project = session.open_project(REPLY_PATIENCE_S)
        _write_reply(project.threads, comment, session.redact(body), session.job.run_id)
    except NightshiftError as error:
        session.emit(Note(f"could not reply in the thread: {error.message}", warning=True))
        return False
    return True


def _write_reply(threads: Threads, asked: CommentAddress, text: str, run_id: str) -> None:
    """Keep one reply per comment ``asked`` up to date; without a comment, one per run. Raises
    ``E_PUBLISH`` if another run handles the comment, or the thread is gone."""
    own_id = threads.read_own_id()
    thread = threads.find_thread(asked) if asked.note else None
    if asked.note and thread is None:
        raise NightshiftError(Code.PUBLISH, "the thread is gone")
    for comment in thread.comments if thread else threads.list_newest_comments(asked):
        marker = read_reply_marker(comment.body) if comment.author_id == own_id else None
        if marker is None or marker.note_id != asked.note:
            continue
        # A later run may accept a declined request, when the settings allow it.
        if marker.run_id == run_id or (asked.note and marker.status == "declined"):
            if comment.body != text:
                threads.edit_comment(asked, comment.id, text)
            return
        if asked.note:
            why = f"pipeline {marker.run_id} is handling the comment"
            raise NightshiftError(Code.PUBLISH, why)
    if thread:
        threads.reply(asked, thread.id, text)
    else:
        threads.add_comment(asked.where, asked.iid, text)
