"""What is answered in the thread of a comment that asked for a task: pure texts.

Nobody is mentioned, and nothing in it refers to more than the merge request of the run.
"""

import re
from collections.abc import Iterable

from gitlab_nightshift.gitlab.threads import Reply, Said, write_reply_marker
from gitlab_nightshift.publish.text import code_span, markdown_line
from gitlab_nightshift.records import (
    Bundle,
    CommandResult,
    Outcome,
    Place,
    Published,
    Request,
    RunResult,
)
from gitlab_nightshift.settings import Job

LONGEST_REASON = 400
MOST_COMMANDS = 10
MOST_FILES = 20
_NOT_DONE = {Outcome.SKIPPED, Outcome.NO_IMPROVEMENT}
_WEB_ADDRESS = re.compile(r"https?://[\w./:~%-]+")


def started(request: Request, job: Job) -> str:
    """It has begun; the answer follows."""
    dry = " as a dry run" if request.dry_run else ""
    text = (
        f"The night shift has taken this up{_for(request)}{dry}{_in(job)}. The result follows here."
    )
    return _marked(text, "started", request.place, job)


def declined(why: str, place: Place, job: Job) -> str:
    """It is not done, and why."""
    text = f"The night shift does not take this up: {_reason(why)}."
    return _marked(text, "declined", place, job)


def ended(
    result: RunResult, bundle: Bundle, published: Published | None, place: Place, job: Job
) -> str:
    """What came of it."""
    parts = (f"{_outcome(result, bundle, published, place)}.", _tests(bundle, result), _more(job))
    said: Said = "failed" if result.error_code or result.outcome in _NOT_DONE else "done"
    return _marked("\n\n".join(part for part in parts if part), said, place, job)


def _outcome(result: RunResult, bundle: Bundle, published: Published | None, place: Place) -> str:
    if published and result.outcome is Outcome.MR_CREATED:
        if place.where == "issues":
            return f"The night shift has opened !{published.mr_iid}"
        return f"The night shift has added the commit {published.commit_sha[:12]}"
    if result.outcome is Outcome.MR_READY and not result.error_code:
        return f"Dry run, nothing was pushed. The night shift would propose {_proposed(bundle)}"
    code = f" ({code_span(result.error_code)})" if result.error_code else ""
    return f"The night shift could not do this{code}: {_reason(result.reason)}"


def _proposed(bundle: Bundle) -> str:
    proposal = bundle.proposal
    if proposal is None:
        return "nothing"
    names = proposal.change.files
    files = ", ".join(map(code_span, names[:MOST_FILES]))
    more = f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else ""
    size = f"+{proposal.change.added} -{proposal.change.deleted}"
    title = markdown_line(proposal.draft.title, 200)
    return f"this: {title} ({files}{more}, {size})"


def _tests(bundle: Bundle, result: RunResult) -> str:
    """How the tests of the change ended; nothing where there is no change."""
    proposal = bundle.proposal
    if proposal is None or result.error_code:
        return ""
    if not proposal.commands:
        return "This program ran no test on the change."
    return "Run on the change:\n\n" + "\n".join(_commands(proposal.commands))


def _commands(results: Iterable[CommandResult]) -> Iterable[str]:
    for each in tuple(results)[:MOST_COMMANDS]:
        yield f"- {code_span(each.command)}: {'passed' if each.ok else 'failed'}"


def _for(request: Request) -> str:
    """Whom it is for, by name: an ``@`` would be a mention."""
    name = markdown_line(request.author, 100)
    return f" for {name}" if name else ""


def _reason(why: str) -> str:
    return markdown_line(why.strip().partition("\n")[0], LONGEST_REASON).rstrip(".")


def _in(job: Job) -> str:
    link = _link(job, "this pipeline")
    return f", in {link}" if link else ""


def _more(job: Job) -> str:
    link = _link(job, "Log and report")
    return f"{link}." if link else ""


def _link(job: Job, text: str) -> str:
    known = _WEB_ADDRESS.fullmatch(job.pipeline_url)
    return f"[{text}]({job.pipeline_url})" if known else ""


def _marked(text: str, said: Said, place: Place, job: Job) -> str:
    return f"{text}\n\n{write_reply_marker(Reply(said, place.note, job.run_id))}"
