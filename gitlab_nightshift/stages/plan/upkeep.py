"""Looks after open merge requests of earlier nights before new work: has GitLab rebase those in
conflict, and finds the one that gets one more commit this night.

Everything is read from GitLab anew. A marker counts only in a comment whose author, by GitLab, is
this program's user. Whoever approves a merge request, sets it to merge or pushes to its branch has
taken it over.
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
"""Upkeep that began less than this ago belongs to this night."""
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
_PUSH_NOTE = compile_lazily(r"added \d+ commits?\b")
"""The beginning of GitLab's system note on a push; its author is the pusher (GitLab's
SystemNotes::CommitService)."""

Redact = Callable[[str], str]


@dataclass(frozen=True)
class UpkeepCandidate:
    """A merge request that nobody has taken over, with its threads. ``own_id`` is the id of the
    token's user, ``run_id`` that of this run."""

    state: ReviewState
    threads: tuple[Thread, ...]
    own_id: int
    run_id: str

    def list_markers(self) -> tuple[tuple[UpkeepMarker, str], ...]:
        """The upkeep markers in this program's own comments, with the comments' times."""
        comments = itertools.chain.from_iterable(thread.comments for thread in self.threads)
        pairs = (
            (read_upkeep_marker(comment.body), comment.created_at)
            for comment in comments
            if comment.author_id == self.own_id and not comment.system
        )
        return tuple((marker, time) for marker, time in pairs if marker)

    def count_runs(self, kind: str) -> int:
        """The number of earlier runs with markers of this kind, without tries of this run."""
        runs = {marker.run_id for marker, _ in self.list_markers() if marker.kind == kind}
        return len(runs - {self.run_id})


def find_candidates(
    project: Project, merge_requests: Iterable[KnownMergeRequest], run_id: str
) -> list[UpkeepCandidate]:
    """Those of the open merge requests that may need upkeep, oldest first. Raises ApiError."""
    newest = sorted(each.iid for each in merge_requests)[-MOST_EXAMINED:]
    own_id = project.threads.read_own_id()
    states = project.reviews.read_checked_states(newest)
    candidates = (_read_candidate(project, state, own_id, run_id) for state in states)
    return [candidate for candidate in candidates if candidate]


def _read_candidate(
    project: Project, state: ReviewState, own_id: int, run_id: str
) -> UpkeepCandidate | None:
    iid = state.iid
    needs_nothing = state.conflict is False and not (state.failed_pipeline or state.commented)
    # A night with an earlier token had another user, whose comments would count as a person's.
    if needs_nothing or not state.opened or state.auto_merge or state.author_id != own_id:
        return None
    if project.reviews.is_approved(iid):
        return None
    threads = project.threads.list_threads("merge_requests", iid)
    if threads is None:
        return None
    comments = itertools.chain.from_iterable(thread.comments for thread in threads)
    others_comments = (each for each in comments if each.author_id != own_id)
    if any(each.system and _PUSH_NOTE.match(each.body) for each in others_comments):
        return None
    return UpkeepCandidate(state, threads, own_id, run_id)


# --- conflicts --------------------------------------------------------------------------------


def rebase_conflicting(project: Project, candidates: Iterable[UpkeepCandidate]) -> list[str]:
    """Have GitLab rebase merge requests in conflict; if it cannot, comment on them, once. Returns a
    note for each of these, and for each that GitLab has not checked for conflicts yet."""
    notes: list[str] = []
    for candidate in candidates:
        iid, conflict = candidate.state.iid, candidate.state.conflict
        markers = candidate.list_markers()
        if conflict is None:
            notes.append(
                f"not known: whether !{iid} is in conflict, as GitLab has not checked it yet"
            )
        elif conflict and not any(marker.kind == "conflict" for marker, _ in markers):
            notes.append(_rebase(project, candidate))
    return notes


def _rebase(project: Project, candidate: UpkeepCandidate) -> str:
    iid = candidate.state.iid
    try:
        why = project.reviews.rebase(iid)
        if not why:
            return f"!{iid} was in conflict with its target branch: rebased by GitLab"
        marker = write_upkeep_marker(UpkeepMarker("conflict", candidate.run_id))
        body = (
            "This merge request is in conflict with its target branch, and GitLab cannot rebase it "
            "alone. The night shift leaves that to you: rebase the branch, or close this."
        )
        project.threads.add_comment("merge_requests", iid, f"{body}\n\n{marker}")
    except ApiError as error:
        return f"!{iid} is in conflict, and looking after it failed: {error}"
    return f"!{iid} is in conflict and needs a person to rebase it: a comment there says so"


# --- one more commit --------------------------------------------------------------------------


def find_upkeep(
    project: Project, candidates: Iterable[UpkeepCandidate], redact: Redact, now: datetime
) -> TaskRequest | None:
    """The request for one more commit: for a failed pipeline, or else for review threads; None if
    nothing needs one. Raises ApiError.

    ``redact`` is applied to what goes into a prompt: a job's log may contain anything.
    """
    ready = [each for each in candidates if not (each.state.conflict or _was_handled(each, now))]
    # Generators: GitLab is asked only until a candidate needs a commit.
    repairs = (_build_repair(project, each, redact) for each in ready)
    reviews = (_build_review(project, each, redact) for each in ready)
    return next(filter(None, itertools.chain(repairs, reviews)), None)


def _was_handled(candidate: UpkeepCandidate, now: datetime) -> bool:
    """True if another run of this night has worked on it."""
    return any(
        marker.kind != "conflict"
        and marker.run_id != candidate.run_id
        and now - _parse_time(time, now) < SAME_NIGHT
        for marker, time in candidate.list_markers()
    )


def parse_pipeline_time(created_at: str) -> datetime:
    """The time at which GitLab created the pipeline. GitLab's clock set it, as it sets the times of
    comments. If ``created_at`` is invalid, this machine's time."""
    return _parse_time(created_at, datetime.now(UTC))


def _parse_time(text: str, default: datetime) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return default


def _build_repair(
    project: Project, candidate: UpkeepCandidate, redact: Redact
) -> TaskRequest | None:
    state = candidate.state
    if not state.failed_pipeline or candidate.count_runs("repair") >= MOST_REPAIRS:
        return None
    jobs = project.reviews.read_failed_jobs(state.failed_pipeline)
    if not jobs:
        return None
    context = _quote(state, [format_job(job) for job in jobs], redact)
    place = CommentAddress("merge_requests", state.iid, 0)
    return _build_request(state, "repair", place, context)


def _build_review(
    project: Project, candidate: UpkeepCandidate, redact: Redact
) -> TaskRequest | None:
    if candidate.count_runs("review") >= MOST_REVIEWS:
        return None
    state, own_id = candidate.state, candidate.own_id
    threads = [thread for thread in candidate.threads if _needs_answer(project, thread, own_id)]
    threads = threads[:MOST_ANSWERED]
    if not threads:
        return None
    texts = [format_thread(thread, number) for number, thread in enumerate(threads, 1)]
    places = [
        CommentAddress("merge_requests", state.iid, thread.comments[-1].id, thread.id)
        for thread in threads
    ]
    request = _build_request(state, "review", places[0], _quote(state, texts, redact))
    return replace(request, also=tuple(places[1:]))


def _needs_answer(project: Project, thread: Thread, own_id: int) -> bool:
    """True if a Developer, not a bot, waits for an answer in an open thread. Threads with an
    internal comment are left alone."""
    comments = [comment for comment in thread.comments if not comment.system]
    if not (thread.open and comments) or any(comment.internal for comment in comments):
        return False
    if comments[-1].author_id == own_id:
        return False
    author = comments[0].author_id  # a reply in a thread is not a request
    return project.threads.read_level(author) >= DEVELOPER and not project.threads.is_bot(author)


def _quote(state: ReviewState, texts: list[tuple[str, str]], redact: Redact) -> str:
    own_text = f"{state.title}\n\n{drop_hidden_comments(state.description)}"
    titled_texts = [*texts, (f"merge request {state.iid}", own_text)]
    return quote_texts([(title, redact(text)) for title, text in titled_texts])


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
    """The request for the upkeep that a run has started on a branch, read from this program's own
    comments, not from an earlier job's files; None without one. Raises ApiError."""
    merge_request = project.merge_requests.find_open(branch)
    own_id = project.threads.read_own_id()
    threads = (
        project.threads.list_threads("merge_requests", merge_request.iid) if merge_request else None
    )
    if merge_request is None or threads is None:
        return None
    places: list[CommentAddress] = []
    kinds: set[UpkeepKind] = set()
    for thread, comment in ((each, comment) for each in threads for comment in each.comments):
        upkeep, reply = read_upkeep_marker(comment.body), read_reply_marker(comment.body)
        if comment.author_id == own_id and upkeep and reply and upkeep.run_id == run_id:
            # No comment has asked for a repair, so its reply is in no thread.
            thread_id = thread.id if reply.note_id else ""
            places.append(
                CommentAddress("merge_requests", merge_request.iid, reply.note_id, thread_id)
            )
            kinds.add("repair" if upkeep.kind == "repair" else "review")
    if len(kinds) != 1:
        return None
    state = project.reviews.read_state(merge_request.iid)
    request = _build_request(state, kinds.pop(), places[0], "")
    return replace(request, also=tuple(places[1:]))
