"""Quotes what agents wrote, or their code printed, in a prompt: as data, and bounded."""

from collections.abc import Iterable, Sequence

from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding

LONGEST_EVIDENCE = 8_000
LONGEST_ROW, LONGEST_TAIL, TAIL_LINES = 600, 800, 8
_PRINTED = "; it printed last:"
_MARKS = {CheckOutcome.FAILED: "failed: ", CheckOutcome.NOT_CHECKED: "not checked: "}


def quote_data(text: str, most: int) -> str:
    """A text of at most ``most`` characters that cannot close the tag around it, nor hold
    controls."""
    plain = "".join(c for c in text if c.isprintable() or c in "\n\t")
    quoted = plain.strip().replace("</", "<\\/")
    return quoted if len(quoted) <= most else f"{quoted[:most]} …"


def format_evidence(
    commands: Iterable[CommandResult],
    tails: Iterable[str],
    others: Sequence[Check | Finding | str],
) -> str:
    """A Markdown list of what this program ran and observed, for Verify's prompt. ``tails`` are the
    ends of the commands' output."""
    rows: list[str] = []
    for result, tail in zip(commands, tails, strict=True):
        last = quote_data("\n".join(tail.split("\n")[-TAIL_LINES:])[-LONGEST_TAIL:], LONGEST_TAIL)
        rows.append(f"- `{result.command}`: {_describe_end(result)}{_PRINTED if last else ''}")
        rows += [f"    {line}" for line in last.split("\n") if line.strip()]
    rows += [f"- {' '.join(_describe(each).split())[:LONGEST_ROW]}" for each in others]
    return quote_data("\n".join(rows), LONGEST_EVIDENCE)


def _describe_end(result: CommandResult) -> str:
    ended = result.error or f"exit status {result.exit_status}"
    again = ", in the second attempt" if result.flaky else ""
    return f"{ended}, {result.duration_s:.1f} s{again}"


def _describe(each: Check | Finding | str) -> str:
    if isinstance(each, Check):
        return f"{_MARKS.get(each.outcome, '')}{each.title}: {each.detail}"
    return f"please look at {each}" if isinstance(each, Finding) else each
