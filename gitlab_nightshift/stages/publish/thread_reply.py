"""Replies in the thread of a comment that asked for a task: pure functions.

A reply mentions nobody, and refers to no merge request but the run's own.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import is_failure
from gitlab_nightshift.gitlab.threads import (
    ReplyMarker,
    ReplyStatus,
    UpkeepMarker,
    write_reply_marker,
    write_upkeep_marker,
)
from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import ThreadAnswer
from gitlab_nightshift.records.products import Bundle, Outcome, Publication
from gitlab_nightshift.records.request import CommentAddress, DiffSpot, TaskRequest
from gitlab_nightshift.records.run_results import CommandFinding, RunResult
from gitlab_nightshift.stages.publish.escaping import (
    WEB_ADDRESS,
    to_code_span,
    to_markdown,
    to_markdown_line,
)
from gitlab_nightshift.text.diff_rows import DiffRow, read_rows
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import remove_hidden

# --- the change as a suggestion -----------------------------------------------------------------
# A click on "Apply suggestion" replaces the lines by the text between the fences, so each character
# of the text must be exact. A change that has to be escaped is shown as a patch instead.


MOST_LINES = 100
"""Lines above and below the commented one that a suggestion may replace (GitLab's
MAX_LINES_CONTEXT)."""
LONGEST_PATCH = 20_000
"""Characters of a patch in a reply."""
_PATCH_NOTE = "The patch is in the artifacts: bundle/change.patch"
_UNSUITABLE = compile_lazily(r"```|~~~|<!--|(?m:^\s*/[A-Za-z])|\ufffd")
"""Text that would end the block, be a quick action or a marker, or was not UTF-8."""


def render_suggestion(patch: str, wide_patch: str, spot: DiffSpot | None) -> str:
    """The change as a suggestion that a click applies, or else as a patch to be read.

    ``wide_patch`` has ``MOST_LINES`` lines around each change; ``spot`` is the line of the diff
    whose thread the reply goes to, None for another thread.
    """
    return (spot and _render_block(wide_patch, spot)) or render_patch(patch)


def _render_block(patch: str, spot: DiffSpot) -> str:
    """The suggestion; "" if the change is not wholly within the lines that the diff shows, or has
    characters that a suggestion cannot show."""
    rows = _list_rows(patch, spot.path)
    # A line that is added at the top of a file has the old number 0; a suggestion begins at 1.
    changed = [max(row.old, 1) for row in rows if row.sign != " "]
    if not changed:
        return ""
    first, last = min(*changed, spot.line), max(*changed, spot.line)
    above, below = spot.line - first, last - spot.line
    is_in_diff = spot.first <= first and last <= spot.last
    replaced = (row for row in rows if row.sign != "-" and first <= max(row.old, 1) <= last)
    lines = [row.line[1:] for row in replaced]
    body = "\n".join(lines)
    if not is_in_diff or max(above, below) > MOST_LINES:
        return ""
    if _UNSUITABLE.search(body) or remove_hidden(body, keep="\n\t") != body:
        return ""
    return "\n".join([f"```suggestion:-{above}+{below}", *lines, "```"])


def _list_rows(patch: str, path: str) -> list[DiffRow]:
    """The lines of a diff that changes only this text file's content; [] for any other diff."""
    rows = list(read_rows(patch.removesuffix("\n").split("\n")))
    head = "\n".join(row.line for row in rows if not row.sign)
    only_file = head.count("diff --git ") == 1 and head.endswith(f"\n--- a/{path}\n+++ b/{path}")
    # A suggestion changes neither a mode nor the missing newline at a file's end.
    if not only_file or "\nold mode" in head or any(row.sign == "\\" for row in rows):
        return []
    return [row for row in rows if row.sign in ("+", "-", " ")]


def render_patch(patch: str) -> str:
    """The complete change in a collapsed section, escaped: it is to be read, not applied."""
    if len(patch) > LONGEST_PATCH:
        return f"It is too long for a comment. {_PATCH_NOTE}."
    # Longer than any run of backticks in the patch, which would end it (spec.commonmark.org, 4.5).
    fence = "`" * max(3, *(len(run) + 1 for run in ["", *re.findall("`+", patch)]))
    block = to_markdown(f"{fence}diff\n{patch.rstrip()}\n{fence}", 2 * LONGEST_PATCH)
    return f"<details><summary>{_PATCH_NOTE}</summary>\n\n{block}\n\n</details>"


# --- replies ------------------------------------------------------------------------------------


LONGEST_REASON, LONGEST_ANSWER = 400, 2_000
"""Characters."""
MOST_COMMANDS = 10
MOST_FILES = 20
_WITH_ANSWERS = {Outcome.MR_CREATED, Outcome.MR_READY, Outcome.NO_IMPROVEMENT}
"""Outcomes of a run whose answers are posted."""
_NOT_DONE = {Outcome.SKIPPED, Outcome.NO_IMPROVEMENT}
"""Outcomes after which the task is still open, unless the run has answered."""


@dataclass(frozen=True)
class RunEnding:
    """How a run ended. Without a change, ``patch`` is ""."""

    result: RunResult
    bundle: Bundle
    published: Publication | None
    patch: str = ""


def render_started_reply(request: TaskRequest, place: CommentAddress, job: JobFacts) -> str:
    """The reply that work on the task has started; later the result replaces it."""
    task = "looking into the failed pipeline" if request.upkeep == "repair" else "working on this"
    name = to_markdown_line(request.author, 100)
    author = f" for {name}" if name else ""  # not @name, which would be a mention
    dry_run = " as a dry run" if request.dry_run else ""
    link = _format_link(job, "this pipeline")
    pipeline = f", in {link}" if link else ""
    text = f"The night shift is {task}{author}{dry_run}{pipeline}. The result will appear here."
    return _append_marker(text, "started", place, job, request)


def render_declined_reply(why: str, place: CommentAddress, job: JobFacts) -> str:
    """The reply that the task is declined, and why."""
    text = f"The night shift cannot take this on: {_shorten_reason(why)}."
    return _append_marker(text, "declined", place, job)


def render_result_reply(
    ending: RunEnding, request: TaskRequest, place: CommentAddress, job: JobFacts
) -> str:
    """The reply with the result."""
    result, bundle = ending.result, ending.bundle
    answer, link = _find_answer(ending, request, place), _format_link(job, "Log and report")
    parts = (
        f"{_describe_ending(ending, place, answer)}.",
        to_markdown(answer.text, LONGEST_ANSWER) if answer else "",
        _show_change(ending),
        _describe_tests(bundle, result),
        f"{link}." if link else "",
    )
    failed = is_failure(result.error_code) or result.outcome in _NOT_DONE or _is_held_back(ending)
    status: ReplyStatus = "failed" if failed and not _is_answered(ending) else "done"
    return _append_marker("\n\n".join(part for part in parts if part), status, place, job, request)


def _show_change(ending: RunEnding) -> str:
    """The change if it was not pushed: a suggestion, or a dry run's patch."""
    if ending.published:
        return ending.published.suggestion
    failed = is_failure(ending.result.error_code)
    proposed = ending.result.outcome is Outcome.MR_READY and not failed
    return render_patch(ending.patch) if proposed and ending.patch else ""


def _is_held_back(ending: RunEnding) -> bool:
    """True if a change is held back because the notary could not run it."""
    return ending.published is not None and ending.result.outcome is Outcome.MR_READY


def _is_answered(ending: RunEnding) -> bool:
    """True if the run answered without a change."""
    return ending.result.outcome is Outcome.NO_IMPROVEMENT and bool(ending.bundle.answers)


def _find_answer(
    ending: RunEnding, request: TaskRequest, place: CommentAddress
) -> ThreadAnswer | None:
    """The run's answer in this thread; None if the run failed, as the answer may then be wrong."""
    result = ending.result
    if is_failure(result.error_code) or result.outcome not in _WITH_ANSWERS:
        return None
    number = 1 + (request.place, *request.also).index(place)
    return next((answer for answer in ending.bundle.answers if answer.thread == number), None)


def _describe_ending(ending: RunEnding, place: CommentAddress, answer: ThreadAnswer | None) -> str:
    result, bundle, published = ending.result, ending.bundle, ending.published
    if published and result.outcome is Outcome.MR_CREATED:
        if place.where == "issues":
            return f"The night shift has opened !{published.mr_iid}"
        text = f"The night shift has added the commit {published.commit_sha[:12]}"
        return f"{text}{_describe_thread_files(bundle, answer)}"
    if published and published.suggestion:
        return "The night shift suggests this change and has pushed nothing"
    if result.outcome is Outcome.MR_READY and not is_failure(result.error_code) and not published:
        proposal = _describe_proposal(bundle)
        return f"Dry run, nothing was pushed. The night shift would propose {proposal}"
    if _is_answered(ending):
        return f"The night shift has changed nothing{'' if answer else ', and has no answer here'}"
    code = f" ({to_code_span(result.error_code)})" if result.error_code else ""
    return f"The night shift could not do this{code}: {_shorten_reason(result.reason)}"


def _describe_thread_files(bundle: Bundle, answer: ThreadAnswer | None) -> str:
    """Which files of the commit are for this thread; "" if unknown."""
    if answer is None or bundle.proposal is None:
        return ""
    files = [name for name in answer.files if name in bundle.proposal.change.files]
    return f", for this thread in {_list_files(files)}" if files else ", none of it for this thread"


def _list_files(names: Sequence[str]) -> str:
    files = ", ".join(map(to_code_span, names[:MOST_FILES]))
    return f"{files} and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else files


def _describe_proposal(bundle: Bundle) -> str:
    proposal = bundle.proposal
    if proposal is None:
        return "nothing"
    title = to_markdown_line(proposal.draft.title, 200)
    return f"this: {title} ({_list_files(proposal.change.files)}, {proposal.change.delta})"


def _describe_tests(bundle: Bundle, result: RunResult) -> str:
    """How the tests of the change ended; "" without a change."""
    if bundle.proposal is None or is_failure(result.error_code):
        return ""
    if result.commands:
        return "Run on the change:\n\n" + "\n".join(_describe_commands(result.commands))
    if result.reported:
        head = "Run on the change, as the work job reports:"
        return f"{head}\n\n" + "\n".join(_describe_commands(result.reported))
    return "No test was run on the change."


def _describe_commands(results: Iterable[CommandFinding]) -> Iterable[str]:
    for finding in tuple(results)[:MOST_COMMANDS]:
        status = "passed" if finding.exit_status == 0 else "failed"
        yield f"- {to_code_span(finding.command)}: {status}"


def _shorten_reason(why: str) -> str:
    return to_markdown_line(why.strip().partition("\n")[0], LONGEST_REASON).rstrip(".")


def _format_link(job: JobFacts, text: str) -> str:
    has_url = WEB_ADDRESS.fullmatch(job.pipeline_url)
    return f"[{text}]({job.pipeline_url})" if has_url else ""


def _append_marker(
    text: str,
    status: ReplyStatus,
    place: CommentAddress,
    job: JobFacts,
    request: TaskRequest | None = None,
) -> str:
    markers = [write_reply_marker(ReplyMarker(status, place.note, job.run_id))]
    if request and request.upkeep:
        markers.append(write_upkeep_marker(UpkeepMarker(request.upkeep, job.run_id)))
    return "\n\n".join([text, "\n".join(markers)])
