"""What asks for a run in GitLab, a comment or an open merge request, and the answers to it."""

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.threads import Threads, read_reply_marker
from gitlab_nightshift.job.job_facts import JobFacts, read_trigger
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Bundle, Plan, Publication
from gitlab_nightshift.records.request import CommentAddress, TaskRequest
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.changed_files import refuse_changed
from gitlab_nightshift.repository.commit_switch import build_pack, check_out_temporarily
from gitlab_nightshift.repository.private_repository import create_private_repository
from gitlab_nightshift.repository.remote import GitServer, fetch
from gitlab_nightshift.session import Session, locate_product
from gitlab_nightshift.settings.override import override_settings
from gitlab_nightshift.stages.plan.comment_check import read_request
from gitlab_nightshift.stages.plan.trigger import (
    DeclinedRequest,
    EditedIssue,
    IgnoredTrigger,
    read_event,
)
from gitlab_nightshift.stages.plan.upkeep import find_upkeep_of_run
from gitlab_nightshift.stages.publish import thread_reply
from gitlab_nightshift.stages.publish.escaping import clean
from gitlab_nightshift.stages.report.run_result import build_run_result

PATIENCE_S = 30.0
"""Seconds for an answer in a thread: a run does not wait for it longer."""
SOURCE = "the comment"
PACK = "plan.pack"
BEADS = ("analyze", "implement", "verify", "mr")

Heard = TaskRequest | DeclinedRequest | IgnoredTrigger


@dataclass(frozen=True)
class TriggerContext:
    """What a run starts from: GitLab's project (None without a token), and what a comment said.
    ``edited``: an issue was, where a box of the dashboard may be ticked."""

    project: Project | None = None
    heard: Heard | None = None
    edited: bool = False

    @property
    def request(self) -> TaskRequest | None:
        """The comment's request, where it is one that is taken up."""
        return self.heard if isinstance(self.heard, TaskRequest) else None


def start(session: Session) -> TriggerContext:
    """Look at GitLab: the token's rights, and the comment of the webhook, where one triggered this
    run. Raises NightshiftError for a token that cannot be used."""
    project = find_project(session)
    heard = _read_comment(session, project)
    if isinstance(heard, EditedIssue):
        return TriggerContext(project, edited=True)
    return TriggerContext(project, heard)


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


def _read_comment(session: Session, project: Project | None) -> Heard | EditedIssue | None:
    if not session.job.trigger_payload:
        return None
    body = read_trigger(session.job)
    if body is None:
        return IgnoredTrigger("the file of TRIGGER_PAYLOAD cannot be read, or is too large")
    place = read_event(body, session.job.project_id)
    if not isinstance(place, CommentAddress):
        return place
    if project is None:
        return IgnoredTrigger("there is no GITLAB_TOKEN to read the comment with")
    heard = read_request(place, project, session.settings, session.job.run_id, session.redact)
    if isinstance(heard, TaskRequest):
        try:
            _with_request(session, heard)
        except NightshiftError as error:
            return DeclinedRequest(error.message, heard.place)
    return heard


def find_begun_upkeep(session: Session, bundle: Bundle) -> TriggerContext:
    """What this run has begun for an open merge request of an earlier night, where the bundle of
    another job is for its branch. Raises NightshiftError where GitLab does not say."""
    prefix = session.settings.branch_prefix
    if not session.secrets.gitlab_token or not bundle.target_branch.startswith(prefix):
        return TriggerContext()
    project = find_project(session)
    assert project is not None
    branch = bundle.target_branch
    return TriggerContext(project, find_upkeep_of_run(project, branch, session.job.run_id))


# --- the session of a request -----------------------------------------------------------------


@contextlib.contextmanager
def take_up_request(session: Session, request: TaskRequest | None) -> Iterator[Session]:
    """The session with what a comment asks for over the settings; within, the checkout stands on
    the head of the branch that is to be worked on.

    Raises NightshiftError where the branch cannot be had.
    """
    there = _with_request(session, request)
    if request is None or not request.head:
        yield there
        return
    at = git_verbs.read_head(session.git, session.checkout)
    if request.head == at:
        yield there
        return
    refuse_changed(session.machine_git, session.checkout)
    pack = _fetch_pack(session, request, at)
    with check_out_temporarily(session.git, session.checkout, request.head, pack):
        yield there


def _with_request(session: Session, request: TaskRequest | None) -> Session:
    if request is None:
        return session
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
    """What the checkout lacks of the branch: fetched with the token, or by the plan's job before,
    which leaves it beside its plan."""
    if not session.secrets.gitlab_token:
        return locate_product(session, None, PACK).read_bytes()
    with tempfile.TemporaryDirectory(prefix="branch-", dir=session.private) as folder:
        source = git_verbs.find_repository_paths(session.git, session.checkout)
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


def build_git_server(session: Session) -> GitServer:
    """Where to fetch from, with the token."""
    job = session.job
    url = f"{job.server_url.rstrip('/')}/{job.project_path}.git"
    return GitServer(url, session.secrets.gitlab_token, env=session.network)


# --- answers ----------------------------------------------------------------------------------


def add_request_to_plan(made: Plan, heard: Heard | None) -> Plan:
    """The plan with the request in it, or with why there is nothing to do."""
    if heard is None:
        return made
    if isinstance(heard, TaskRequest):
        return replace(made, request=heard)
    return replace(made, scheduled="", categories=(), left_out=(), task="", skip=heard.why)


def tell_taken_up(session: Session, made: Plan, heard: Heard | None) -> bool:
    """Say in the thread that it begins, or why it does not. True where all of it could be said."""
    if isinstance(heard, DeclinedRequest):
        return _decline(session, heard)
    if isinstance(heard, TaskRequest) and not made.skip:
        return _answer_all(session, heard, thread_reply.render_started_reply)
    return True


def tell_failed(session: Session, bundle: Bundle) -> None:
    """Answer the comment whose run has failed before its work, or has lost it. The comment is read
    once more: it may not have been until then."""
    if not (session.job.trigger_payload and session.secrets.gitlab_token):
        return
    try:
        heard = start(session).heard
    except NightshiftError as error:
        session.emit(Note(f"could not reply in the thread: {error.message}", warning=True))
        return
    if isinstance(heard, DeclinedRequest):
        _decline(session, heard)
    elif isinstance(heard, TaskRequest):
        tell_ended(session, heard, build_run_result(bundle, None), bundle, None)


def tell_ended(
    session: Session,
    request: TaskRequest | None,
    result: RunResult,
    bundle: Bundle,
    published: Publication | None,
    patch: str = "",
) -> None:
    """Say in the thread what came of it; ``patch`` is the change."""
    if request:
        # Before they are escaped: a secret still has its own characters.
        answers = map_texts(bundle.answers, lambda text: session.redact(clean(text)))
        bundle = replace(bundle, answers=answers)
        ending = thread_reply.RunEnding(result, bundle, published, patch)
        _answer_all(session, request, functools.partial(thread_reply.render_result_reply, ending))


def _decline(session: Session, heard: DeclinedRequest) -> bool:
    text = thread_reply.render_declined_reply(heard.why, heard.place, session.job)
    return _answer(session, heard.place, text)


def _answer_all(
    session: Session,
    request: TaskRequest,
    render: Callable[[TaskRequest, CommentAddress, JobFacts], str],
) -> bool:
    places = (request.place, *request.also)
    done = [_answer(session, place, render(request, place, session.job)) for place in places]
    return all(done)


def _answer(session: Session, place: CommentAddress, body: str) -> bool:
    """Post a reply, or give the one that is there another text. False where it could not be done:
    nothing of a run fails by it."""
    job, text = session.job, session.redact(body)
    try:
        project = session.open_project(PATIENCE_S)
        return _write_answer(project.threads, place, text, job.run_id)
    except NightshiftError as error:
        session.emit(Note(f"could not reply in the thread: {error.message}", warning=True))
        return False


def _write_answer(threads: Threads, place: CommentAddress, text: str, run_id: str) -> bool:
    """One answer to a comment, which is updated; one of each run where there is no comment."""
    own = threads.read_own_id()
    thread = threads.find_thread(place) if place.note else None
    if place.note and thread is None:
        raise NightshiftError(Code.PUBLISH, "the thread is gone")
    said = thread.comments if thread else threads.list_newest(place)
    for each in said:
        reply = read_reply_marker(each.body) if each.author_id == own else None
        if reply is None or reply.note != place.note:
            continue
        if reply.run_id == run_id or (place.note and reply.said == "declined"):
            if each.body != text:
                threads.edit_comment(place, each.id, text)
            return True
        if place.note:
            text = f"pipeline {reply.run_id} is handling the comment"
            raise NightshiftError(Code.PUBLISH, text)
    if thread:
        threads.reply(place, thread.id, text)
    else:
        threads.add_comment(place.where, place.iid, text)
    return True
