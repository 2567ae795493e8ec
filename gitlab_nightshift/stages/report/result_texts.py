"""A run's result in plain words, and the message that notifies people of it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gitlab_nightshift.errors import CANCELLATION_CODES, STOPPED_BY_SIGNAL, Code
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.run_results import AttemptResult, CommandFinding, RunResult
from gitlab_nightshift.records.usage import format_cost
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.text.lazy_patterns import compile_lazily

if TYPE_CHECKING:  # report reads no settings
    from gitlab_nightshift.settings.model import Settings

_HEADLINES = {
    Outcome.MR_CREATED: "A merge request is open",
    Outcome.NO_IMPROVEMENT: "Nothing was proposed",
    Outcome.MR_READY: "A change is ready; nothing was pushed",
    Outcome.SKIPPED: "The night was skipped",
    Outcome.APPROVAL_REQUIRED: "A change waits for an approval",
    Outcome.FAILED: "The night failed",
}
_SENT_BACK = {
    Code.APPLY_FAILED.value: "Nothing that could be used",
    Code.POLICY_DENY.value: "Refused by the rules",
    Code.TEST_FAILED.value: "Not proven",
}


def build_headline(result: RunResult) -> str:
    """The outcome as a headline."""
    text = _HEADLINES[result.outcome]
    partial = is_incomplete(result) and result.outcome is not Outcome.FAILED
    return f"{text}; part of the night could not do its work" if partial else text


def is_incomplete(result: RunResult) -> bool:
    """True if a part of the night could not do its work."""
    return result.error_code == "E_INCOMPLETE"


def list_proofs(result: RunResult) -> tuple[str, ...]:
    """What proves the proposed change: commands, its size, the strongest measured evidence."""
    if result.change is None:
        return ()
    suffix = "" if result.commands else ", as the work job reports"
    commands = [
        f"{each.command} passed{suffix}"
        for each in result.commands or result.reported
        if each.exit_status == 0
    ]
    details = [each.detail.partition("; ")[0] for each in result.evidence if each.level == "pass"]
    measured = [f"measured independently: {detail}" for detail in details[-1:]]
    return (*(commands[:3] or ["no command was run"]), str(result.change), *measured)


def describe_attempt(attempt: AttemptResult) -> str:
    """How an attempt ended, in a few words."""
    return "Passed" if attempt.passed else _SENT_BACK.get(attempt.error_code, "Sent back")


def describe_command(command: CommandFinding) -> str:
    """How a command ended."""
    status = "did not end" if command.exit_status is None else f"exit status {command.exit_status}"
    retry = ", in the second attempt" if command.level == "warn" else ""
    return f"{command.error or status}, {command.duration_s:.1f} s{retry}"


def format_duration(seconds: float) -> str:
    """``8 s``, ``12 min``, ``1 h 5 min``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


# --- the message ----------------------------------------------------------------------------------


CHANGES = "changes"
"""A value of ``notify_on``, instead of outcomes: only news (see ``is_wanted``)."""
LONGEST_TITLE, LONGEST_REASON = 160, 300
"""Characters."""
Tone = Literal["info", "success", "warning", "failure"]
_NEWS = (Outcome.MR_CREATED, Outcome.MR_READY, Outcome.APPROVAL_REQUIRED, Outcome.FAILED)
_TONES: dict[Outcome, Tone] = {
    Outcome.MR_CREATED: "success",
    Outcome.MR_READY: "success",
    Outcome.APPROVAL_REQUIRED: "warning",
    Outcome.FAILED: "failure",
}
_MARKUP = compile_lazily(r"[@<&]|\](?=\()|:(?=//)")
"""What a chat would turn into a mention, a link or an entity."""


@dataclass(frozen=True)
class Notification:
    """A message in plain text. A service may show the ``tone`` as a color."""

    title: str
    body: str
    tone: Tone


def pack_notify_request(settings: "Settings") -> dict[str, Any]:
    """What the notifying process needs of the settings, {} if nobody is to be notified. The outcome
    of the night before (``before``) is not known yet."""
    page = "" if settings.dry_run else settings.confluence_page_id or ""
    if settings.rehearse or not (settings.notify or page):
        return {}
    on, addresses = list(settings.notify_on), list(settings.notify)
    return {"addresses": addresses, "on": on, "before": "", "page": page}


def is_wanted(result: RunResult, wanted: Collection[str], before: str = "") -> bool:
    """True if people asked to be notified of this run.

    ``wanted`` has outcomes, or ``changes``, which means a change, a failure, an incomplete night,
    the first good night after a failure, and the first of several skips. ``before`` is the outcome
    of the night before, "" if unknown.
    """
    if is_cancelled(result):
        return False
    return result.outcome in wanted or (CHANGES in wanted and _is_news(result, before))


def is_cancelled(result: RunResult | Bundle) -> bool:
    """True if a person has cancelled the run, and so knows about it."""
    return result.error_code in CANCELLATION_CODES and STOPPED_BY_SIGNAL in result.reason


def _is_news(result: RunResult, before: str) -> bool:
    if result.outcome in _NEWS or is_incomplete(result):
        return True
    if result.outcome is Outcome.SKIPPED:
        return before != Outcome.SKIPPED
    return before == Outcome.FAILED


def build_notification(result: RunResult) -> Notification:
    """The message about a run. Texts by agents and outsiders mention nobody and are no links."""
    project = disable_markup(result.project or "night shift")
    effort = f"{format_cost(result.usage)}, {format_duration(result.total_duration_s)}"
    lines = map(disable_markup, (_describe_subject(result), _describe_reason(result), effort))
    body = "\n".join(filter(None, (*lines, result.mr_url or result.pipeline_url)))
    tone: Tone = "warning" if is_incomplete(result) else _TONES.get(result.outcome, "info")
    return Notification(f"{project}: {build_headline(result)}", body, tone)


def _describe_subject(result: RunResult) -> str:
    """The category that was used, and the title of the change."""
    category = "" if result.category_used == "none" else result.category_used
    return ": ".join(filter(None, (category, format_line(result.title, LONGEST_TITLE))))


def _describe_reason(result: RunResult) -> str:
    """Why the run ended this way; "" for an opened merge request, which needs no reason."""
    if result.outcome is Outcome.MR_CREATED and not result.error_code:
        return ""
    text = ": ".join(filter(None, (result.error_code, result.reason)))
    return format_line(text, LONGEST_REASON)


def disable_markup(text: str) -> str:
    """The text with zero-width spaces in what a chat would turn into markup."""
    return _MARKUP.sub(lambda match: f"{match[0]}\u200b", text)
