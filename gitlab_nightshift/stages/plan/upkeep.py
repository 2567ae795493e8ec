"""Looks after open merge requests of earlier nights before new work: has GitLab rebase those in
conflict, and finds the one that gets one more commit this night.

Everything is read from GitLab anew, and GitLab's author of a comment says whose it is: a text or a
marker in a comment of somebody else changes nothing. Whoever approves a merge request, sets it to
merge or pushes to its branch has taken it over.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gitlab_nightshift.gitlab.accounts import DEVELOPER
from gitlab_nightshift.gitlab.api_error import ApiError
from gitlab_nightshift.gitlab.merge_requests import ReviewState
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.threads import (
    Thread,
    UpkeepMarker,
    read_reply_marker,
    read_upkeep_marker,
    write_upkeep_marker,
)
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.records.request import CommentAddress, TaskRequest, UpkeepKind
from gitlab_nightshift.stages.plan.quotes import (
    drop_hidden_comments,
    format_job,
    format_thread,
    quote_texts,
)
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_EXAMINED = 5
"""Newest open merge requests that are examined: each costs up to four API requests."""
MOST_REPAIRS = MOST_REVIEWS = 2
"""Runs that repair one merge request's pipeline, and runs that answer its reviews."""
MOST_ANSWERED = 10
"""Threads that one run answers."""
SAME_NIGHT = timedelta(hours=12)
"""Upkeep that began less than this ago was done by another run of this night."""
_TASKS = {
    "repair": (
        "The pipeline of merge request !{} failed. Find the cause in the logs of its failed jobs "
        "below, and repair it by the smallest change that keeps what the merge request is for. No "
        "test is deleted, skipped or weakened, and the CI configuration stays as it is. If the "
        "cause lies outside the repository, change nothing and say so."
    ),
    "review": (
        "Reviewers of merge request !{} have left the comments below, which are not resolved. Do "
        "what they ask for, as far as it belongs to this merge request, by the smallest change. "
        "What is only a question or a remark needs none: it is answered."
    ),
}
_COMMITTED = compile_lazily(r"added \d+ commits?\b")
"""How the system comment on a push begins, whose author is the pusher (GitLab's
SystemNotes::CommitService)."""

Redact = Callable[[str], str]


@dataclass(frozen=True)
class WaitingReview:
    """A merge request that nobody has taken over, with its threads. ``own_id`` is the id of the
    token's user, ``run_id`` of this run."""

    state: ReviewState
    threads: tuple[Thread, ...]
    own_id: int
    run_id: str

    def list_markers(self) -> tuple[tuple[UpkeepMarker, str], ...]:
        """What this program has done for it, with times, read from its own comments only."""
        comments = (each for thread in self.threads for each in thread.comments)
        pairs = (
            (read_upkeep_marker(each.body), each.created_at)
            for each in comments
            if each.author_id == self.own_id and not each.system
        )
        return tuple((mark, when) for mark, when in pairs if mark)

    def count_runs(self, kind: str) -> int:
        """How many earlier runs left marks of this kind; earlier tries of this run do not count."""
        runs = {mark.run_id for mark, _ in self.list_markers() if mark.kind == kind}
        return len(runs - {self.run_id})


def find_waiting(
    project: Project, opened: Iterable[KnownMergeRequest], run_id: str
) -> list[WaitingReview]:
    """The merge requests that may need something, oldest first. Raises ApiError."""
    newest = sorted(opened, key=lambda each: each.iid)[-MOST_EXAMINED:]
    own_id = project.threads.read_own_id()
    states = project.reviews.read_settled_states(each.iid for each in newest)
    return [found for each in states if (found := _read_waiting(project, each, own_id, run_id))]


def _read_waiting(
    project: Project, state: ReviewState, own_id: int, run_id: str
) -> WaitingReview | None:
    iid = state.iid
    idle = state.conflict is False and not (state.failed_pipeline or state.commented)
    # Another author was the user of an earlier token: what that did looks like a person's work.
    if idle or not state.opened or state.auto_merge or state.author_id != own_id:
        return None
    if project.reviews.is_approved(iid):
        return None
    threads = project.threads.list_threads("merge_requests", iid)
    if threads is None:
        return None
    others = (each for thread in threads for each in thread.comments if each.author_id != own_id)
    if any(each.system and _COMMITTED.match(each.body) for each in others):
        return None
    return WaitingReview(state, threads, own_id, run_id)


# --- conflicts --------------------------------------------------------------------------------


def rebase_conflicting(project: Project, waiting: Iterable[WaitingReview]) -> list[str]:
    """Have GitLab rebase merge requests in conflict; if it cannot, comment there, once. Returns a
    note on each of these, and on each for which GitLab has not checked whether it is in conflict.
    """
    notes: list[str] = []
    for each in waiting:
        iid, conflict = each.state.iid, each.state.conflict
        if conflict is None:
            notes.append(
                f"not known: whether !{iid} is in conflict, as GitLab has not checked it yet"
            )
        elif conflict and not any(mark.kind == "conflict" for mark, _ in each.list_markers()):
            notes.append(_rebase(project, each))
    return notes


def _rebase(project: Project, waiting: WaitingReview) -> str:
    iid = waiting.state.iid
    try:
        why = project.reviews.rebase(iid)
        if not why:
            return f"!{iid} was in conflict with its target branch: rebased by GitLab"
        mark = write_upkeep_marker(UpkeepMarker("conflict", waiting.run_id))
        body = (
            "This merge request is in conflict with its target branch, and GitLab cannot rebase it "
            "alone. The night shift leaves that to you: rebase the branch, or close this."
        )
        project.threads.add_comment("merge_requests", iid, f"{body}\n\n{mark}")
    except ApiError as error:
        return f"!{iid} is in conflict, and looking after it failed: {error}"
    return f"!{iid} is in conflict and needs a person to rebase it: a comment there says so"


# --- one more commit --------------------------------------------------------------------------


def find_upkeep(
    project: Project, waiting: Iterable[WaitingReview], redact: Redact, now: datetime
) -> TaskRequest | None:
    """The request for one more commit: for a failed pipeline, or else for review threads; None if
    nothing needs one. Raises ApiError.

    ``redact`` is applied to what goes into a prompt: a job's log may hold anything.
    """
    ready = [each for each in waiting if not each.state.conflict and not _was_done(each, now)]
    # Each asks GitLab, so only up to the first that needs something.
    repairs = (_build_repair(project, each, redact) for each in ready)
    reviews = (_build_review(project, each, redact) for each in ready)
    return next(filter(None, itertools.chain(repairs, reviews)), None)


def _was_done(waiting: WaitingReview, now: datetime) -> bool:
    """True if another run of this night has handled it."""
    return any(
        mark.kind != "conflict"
        and mark.run_id != waiting.run_id
        and now - _parse_time(when, now) < SAME_NIGHT
        for mark, when in waiting.list_markers()
    )


def read_gitlab_time(created_at: str) -> datetime:
    """The pipeline's creation as "now", or this machine's time if that is invalid. Comments have
    their times from the same clock of GitLab's."""
    return _parse_time(created_at, datetime.now(UTC))


def _parse_time(text: str, now: datetime) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return now


def _build_repair(project: Project, waiting: WaitingReview, redact: Redact) -> TaskRequest | None:
    state = waiting.state
    if not state.failed_pipeline or waiting.count_runs("repair") >= MOST_REPAIRS:
        return None
    jobs = project.reviews.read_failed_jobs(state.failed_pipeline)
    if not jobs:
        return None
    context = _quote(state, [format_job(job) for job in jobs], redact)
    place = CommentAddress("merge_requests", state.iid, 0)
    return _build_request(state, "repair", place, context)


def _build_review(project: Project, waiting: WaitingReview, redact: Redact) -> TaskRequest | None:
    if waiting.count_runs("review") >= MOST_REVIEWS:
        return None
    waiting_threads = [
        each for each in waiting.threads if _is_waiting(project, each, waiting.own_id)
    ]
    if not waiting_threads:
        return None
    waiting_threads = waiting_threads[:MOST_ANSWERED]
    state = waiting.state
    context = _quote(
        state, [format_thread(each, n) for n, each in enumerate(waiting_threads, 1)], redact
    )
    first, *more = (
        CommentAddress("merge_requests", state.iid, each.comments[-1].id, each.id)
        for each in waiting_threads
    )
    return replace(_build_request(state, "review", first, context), also=tuple(more))


def _is_waiting(project: Project, thread: Thread, own_id: int) -> bool:
    """True if a Developer, not a bot, waits for an answer in an open thread. Threads with an
    internal comment are left alone."""
    comments = [each for each in thread.comments if not each.system]
    if not (thread.open and comments) or any(each.internal for each in comments):
        return False
    if comments[-1].author_id == own_id:
        return False
    asking = comments[0].author_id  # who replies in a thread asks for nothing
    return project.threads.read_level(asking) >= DEVELOPER and not project.threads.is_bot(asking)


def _quote(state: ReviewState, parts: list[tuple[str, str]], redact: Redact) -> str:
    text = f"{state.title}\n\n{drop_hidden_comments(state.description)}"
    whole = [*parts, (f"merge request {state.iid}", text)]
    return quote_texts([(name, redact(body)) for name, body in whole])


def _build_request(
    state: ReviewState, kind: UpkeepKind, place: CommentAddress, context: str
) -> TaskRequest:
    return TaskRequest(
        place=place,
        task=_TASKS[kind].format(state.iid),
        context=context,
        url=state.web_url,
        branch=state.branch,
        head=state.head,
        upkeep=kind,
    )


# --- retried runs -----------------------------------------------------------------------------


def find_upkeep_of_run(project: Project, branch: str, run_id: str) -> TaskRequest | None:
    """The upkeep that a run has started on a branch, read from this program's own comments, so that
    the publishing job need not trust an earlier job's files; None without one. Raises ApiError."""
    found = project.merge_requests.find_open(branch)
    own_id = project.threads.read_own_id()
    threads = project.threads.list_threads("merge_requests", found.iid) if found else None
    if found is None or threads is None:
        return None
    places: list[CommentAddress] = []
    kinds: set[UpkeepKind] = set()
    for thread, comment in ((each, comment) for each in threads for comment in each.comments):
        mark, reply = read_upkeep_marker(comment.body), read_reply_marker(comment.body)
        if comment.author_id == own_id and mark and reply and mark.run_id == run_id:
            # A repair is not asked for by a comment, so its reply is in no thread.
            thread_id = thread.id if reply.note else ""
            places.append(CommentAddress("merge_requests", found.iid, reply.note, thread_id))
            kinds.add("repair" if mark.kind == "repair" else "review")
    if len(kinds) != 1:
        return None
    state = project.reviews.read_state(found.iid)
    request = _build_request(state, kinds.pop(), places[0], "")
    return replace(request, also=tuple(places[1:]))
