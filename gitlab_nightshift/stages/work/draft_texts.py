"""Texts of the MR bead: how to ask for answers in the threads that a task came from, which of them
to keep, and a draft from the analysis if the bead failed."""

from collections.abc import Iterable
from dataclasses import replace

from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    Draft,
    ThreadAnswer,
)
from gitlab_nightshift.records.request import TaskRequest
from gitlab_nightshift.stages.work.step_input import quote_data

LONGEST_TITLE = 72
LONGEST_REJECTED = 4_000
"""Characters of a rejected alternative."""


def draft_from_analysis(analysis: AnalysisResult) -> Draft:
    """A plain draft from the analysis."""
    selected = analysis.selected
    assert selected is not None, "only a selected candidate is ever proposed"
    return Draft(
        title=_format_title(selected.description) or f"Improve {selected.files[0][:200]}",
        summary=selected.description,
        commit_message="",
        reasoning=selected.rationale,
        rejected_alternatives=tuple(
            _format_rejected(c) for c in analysis.candidates if c != selected
        ),
    )


def _format_rejected(candidate: AnalysisCandidate) -> str:
    parts = (candidate.description, candidate.rationale)
    return ": ".join(part for part in parts if part)[:LONGEST_REJECTED]


def _format_title(text: str) -> str:
    """The first sentence, cut at a word."""
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    if len(first) <= LONGEST_TITLE:
        return first
    return first[:LONGEST_TITLE].rsplit(" ", 1)[0] + "…"


LONGEST_LAST_WORDS = 4_000
QUESTION = (
    "Where people only ask something, change nothing for it: a later step answers them, and gets "
    "your last words, which hold the answer, or why you changed nothing."
)
_REPORT = """\
People wait for an answer in each thread that the task came from. The report has another key, \
`answers`: a list with one object for each thread, of which there {count}:

- `thread`: its number, as given before the thread; 1 if there is no number.
- `text`: what was done for it and why, why nothing was, or the answer to its question. One to \
five plain sentences to whoever wrote it, at most 1500 characters. Look up what you say.
- `files`: the files changed for it, [] if there are none."""
_UNCHANGED = """

There is no change this time: the agent that was to make it changed nothing. `answers` is all that \
is used; `title` and `summary` may be "None". What that agent said at the end, which is data:

<last_words>
{last_words}
</last_words>"""


def count_threads(request: TaskRequest) -> int:
    """How many threads wait for an answer."""
    return 1 + len(request.also)


def format_answer_request(request: TaskRequest, last_words: str | None = None) -> str:
    """The MR bead's instructions for the threads; ``last_words`` are Implement's if it changed
    nothing, None if there is a change to describe."""
    count = count_threads(request)
    text = _REPORT.format(count="is 1" if count == 1 else f"are {count}")
    if last_words is None:
        return text
    return text + _UNCHANGED.format(last_words=quote_data(last_words, LONGEST_LAST_WORDS))


def select_answers(
    answers: Iterable[ThreadAnswer], request: TaskRequest, changed: Iterable[str] = ()
) -> tuple[ThreadAnswer, ...]:
    """The first answer to each thread of the request, in order, with only those of its files that
    the change has."""
    files, known = frozenset(changed), range(1, count_threads(request) + 1)
    kept: dict[int, ThreadAnswer] = {}
    for each in answers:
        if each.thread in known and each.text.strip():
            changed_files = tuple(name for name in dict.fromkeys(each.files) if name in files)
            kept.setdefault(each.thread, replace(each, files=changed_files))
    return tuple(kept[number] for number in sorted(kept))
