"""A run's result in plain words, for the page and the job log."""

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import AttemptResult, CommandFinding, RunResult

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


def describe_outcome(result: RunResult) -> str:
    """The outcome in words."""
    text = _HEADLINES[result.outcome]
    partial = is_incomplete(result) and result.outcome is not Outcome.FAILED
    return f"{text}; part of the night could not do its work" if partial else text


def is_incomplete(result: RunResult) -> bool:
    """True if a part of the night could not do its work."""
    return result.error_code == "E_INCOMPLETE"


def list_proofs(result: RunResult) -> tuple[str, ...]:
    """What proves the proposed change: the commands, its size, what was measured without agents."""
    if result.change is None:
        return ()
    passed = [each.detail.partition("; ")[0] for each in result.evidence if each.level == "pass"]
    commands = [f"{each.command} passed" for each in result.commands if each.exit_status == 0]
    if not result.commands:
        ran = (each.command for each in result.reported if each.exit_status == 0)
        commands = [f"{command} passed, as the work job reports" for command in ran]
    measured = [f"measured independently: {each}" for each in passed[-1:]]
    return (*(commands[:3] or ["no command was run"]), str(result.change), *measured)


def describe_attempt(attempt: AttemptResult) -> str:
    """How an attempt ended, in a few words."""
    return "Passed" if attempt.passed else _SENT_BACK.get(attempt.error_code, "Sent back")


def describe_command(command: CommandFinding) -> str:
    """How a command ended."""
    ended = "did not end" if command.exit_status is None else f"exit status {command.exit_status}"
    how = command.error or ended
    again = ", in the second attempt" if command.level == "warn" else ""
    return f"{how}, {command.duration_s:.1f} s{again}"


def format_duration(seconds: float) -> str:
    """``8 s``, ``12 min``, ``1 h 5 min``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
