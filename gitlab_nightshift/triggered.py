"""A comment that asks for a run: heard before it, answered in its thread before and after."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.events import Note
from gitlab_nightshift.gitlab import Project
from gitlab_nightshift.gitlab.project import open_project
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.checkout import refuse_changed
from gitlab_nightshift.host.environment import NETWORK
from gitlab_nightshift.host.remote import Server, fetch
from gitlab_nightshift.host.repository import private_repository
from gitlab_nightshift.host.standing import pack_of, standing
from gitlab_nightshift.plan.comment import read_request
from gitlab_nightshift.plan.trigger import Declined, Ignored, read_event
from gitlab_nightshift.publish import reply
from gitlab_nightshift.records import Bundle, Place, Plan, Published, Request, RunResult
from gitlab_nightshift.session import Session, product
from gitlab_nightshift.settings import read_trigger
from gitlab_nightshift.settings.override import overridden

PATIENCE_S = 30.0
"""Seconds for an answer in a thread: a run does not wait for it longer."""
SOURCE = "the comment"
PACK = "plan.pack"
BEADS = ("analyze", "implement", "verify", "mr")

Heard = Request | Declined | Ignored


@dataclass(frozen=True)
class Start:
    """What a run starts from: GitLab's project (None without a token), and what a comment said."""

    project: Project | None = None
    heard: Heard | None = None

    @property
    def request(self) -> Request | None:
        """The comment's request, where it is one that is taken up."""
        return self.heard if isinstance(self.heard, Request) else None


def start(session: Session) -> Start:
    """Look at GitLab: the token's rights, and the comment of the webhook, where one triggered this
    run. Raises NightshiftError for a token that cannot be used."""
    project = project_of(session)
    return Start(project, _heard(session, project))


def project_of(session: Session) -> Project | None:
    """GitLab's project with the token's rights checked; None without a token."""
    token, job = session.secrets.gitlab_token, session.job
    if not token:
        return None
    if not job.server_url or not job.project_id:
        raise config_error("which project? Outside CI set repo_url to its web address")
    project = open_project(job.server_url, job.project_id, token)
    project.access()
    return project


def _heard(session: Session, project: Project | None) -> Heard | None:
    if not session.job.trigger_payload:
        return None
    body = read_trigger(session.job)
    if body is None:
        return Ignored("the file of TRIGGER_PAYLOAD cannot be read, or is too large")
    place = read_event(body, session.job.project_id)
    if not isinstance(place, Place):
        return place
    if project is None:
        return Ignored("there is no GITLAB_TOKEN to read the comment again with")
    heard = read_request(place, project, session.settings, session.job.run_id)
    if isinstance(heard, Request):
        try:
            _with_request(session, heard)
        except NightshiftError as error:
            return Declined(error.message, heard.place)
    return heard


# --- the session of a request -----------------------------------------------------------------


@contextlib.contextmanager
def taken_up(session: Session, request: Request | None) -> Iterator[Session]:
    """The session with what a comment asks for over the settings; within, the checkout stands on
    the head of the branch that is to be worked on.

    Raises NightshiftError where the branch cannot be had.
    """
    there = _with_request(session, request)
    if request is None or not request.head:
        yield there
        return
    at = git_verbs.head(session.git, session.checkout)
    if request.head == at:
        yield there
        return
    refuse_changed(session.machine_git, session.checkout)
    pack = _pack(session, request, at)
    with standing(session.git, session.checkout, request.head, pack):
        yield there


def _with_request(session: Session, request: Request | None) -> Session:
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
    return replace(session, job=job, settings=overridden(session.settings, values, SOURCE))


def _pack(session: Session, request: Request, base: str) -> bytes:
    """What the checkout lacks of the branch: fetched with the token, or by the plan's job before,
    which leaves it beside its plan."""
    if not session.secrets.gitlab_token:
        return product(session, None, PACK).read_bytes()
    with tempfile.TemporaryDirectory(prefix="branch-", dir=session.private) as folder:
        source = git_verbs.place(session.git, session.checkout)
        repository = private_repository(session.git, Path(folder) / "repository.git", source)
        fetched = fetch(repository, _server(session), request.branch)
        if not fetched.ok:
            text = f"branch {request.branch} could not be fetched: {fetched.message}"
            raise NightshiftError(Code.PUBLISH, text)
        if fetched.commit != request.head:
            raise NightshiftError(Code.PUBLISH, f"branch {request.branch} is moving: try again")
        pack = pack_of(repository, request.head, base)
    (session.results / PACK).write_bytes(pack)
    return pack


def _server(session: Session) -> Server:
    job = session.job
    network = {name: session.env[name] for name in NETWORK if session.env.get(name)}
    url = f"{job.server_url.rstrip('/')}/{job.project_path}.git"
    return Server(url, session.secrets.gitlab_token, env=network)


# --- answers ----------------------------------------------------------------------------------


def planned(made: Plan, heard: Heard | None) -> Plan:
    """The plan with the request in it, or with why there is nothing to do."""
    if heard is None:
        return made
    if isinstance(heard, Request):
        return replace(made, request=heard)
    return replace(made, scheduled="", categories=(), left_out=(), task="", skip=heard.why)


def tell_taken_up(session: Session, made: Plan, heard: Heard | None) -> None:
    """Say in the thread that it begins, or why it does not."""
    if isinstance(heard, Declined):
        _answer(session, heard.place, reply.declined(heard.why, heard.place, session.job))
    elif isinstance(heard, Request) and not made.skip:
        _answer(session, heard.place, reply.started(heard, session.job))


def tell_ended(
    session: Session,
    request: Request | None,
    result: RunResult,
    bundle: Bundle,
    published: Published | None,
) -> None:
    """Say in the thread what came of it."""
    if request:
        text = reply.ended(result, bundle, published, request.place, session.job)
        _answer(session, request.place, text)


def _answer(session: Session, place: Place, body: str) -> None:
    """Post a reply that is not there yet. Nothing of a run fails by it."""
    job, text = session.job, session.redact(body)
    try:
        token = session.secrets.gitlab_token
        project = open_project(job.server_url, job.project_id, token, patience_s=PATIENCE_S)
        thread, own = project.threads.thread(place), project.threads.own_id()
        if thread is None:
            session.emit(Note("the thread to answer in is gone", warning=True))
        elif not any((each.author_id, each.body) == (own, text) for each in thread.comments):
            project.threads.reply(place, thread.id, text)
    except NightshiftError as error:
        session.emit(Note(f"no answer in the thread: {error.message}", warning=True))
