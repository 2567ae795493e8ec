"""A bead's input besides the analysis: earlier failures, the last patch, the evidence. What agents
wrote, or their code printed, is quoted as data, and bounded."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.verdicts import Check, CheckOutcome, Finding
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST_LAST, LONGEST_EARLIER, EARLIER_LINES = 5_000, 600, 4
"""Characters of the last failure's text; characters and lines of each earlier one."""
MOST_REFUSED, LONGEST_REFUSED = 15, 160
LARGEST_PATCH = 200_000
"""Bytes: a larger patch is too long to read, and was too large a change anyway."""
_VARYING = compile_lazily(r"\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds)\b|0x[0-9a-f]{6,}")
"""What varies between two runs with the same failure: durations, memory addresses."""


@dataclass(frozen=True)
class FailedAttempt:
    """A failed attempt, what the next one should know, and the code of a run that ends with it.

    ``patch`` is its change, ``refused`` are Implement's commands that were refused or not found.
    ``unchanged``: it changed nothing at all; ``last_words`` is the agent's last message.
    """

    why: str
    code: Code = Code.TEST_FAILED
    patch: bytes = b""
    refused: tuple[str, ...] = ()
    unchanged: bool = False
    last_words: str = ""

    def repeats(self, other: "FailedAttempt") -> bool:
        """True for the same failure, word for word: another attempt would learn nothing."""
        return _normalize(self.why) == _normalize(other.why)


@dataclass(frozen=True)
class StepInput:
    """``error`` is why earlier attempts failed, ``evidence`` what this program ran on the change
    and observed, ``patch`` the last attempt's change."""

    error: str = ""
    evidence: str = ""
    patch: bytes = b""


FIRST_STEP = StepInput()


def build_step_input(failures: Sequence[FailedAttempt], evidence: str) -> StepInput:
    """A bead's input after these failures of the same idea."""
    patch = failures[-1].patch if failures else b""
    return StepInput(
        format_failures(failures), evidence, patch if len(patch) <= LARGEST_PATCH else b""
    )


def format_failures(failures: Sequence[FailedAttempt]) -> str:
    """All failures, the last one in full, the others shortened; then what was refused."""
    *earlier, last = failures or (FailedAttempt(""),)
    parts = [f"Attempt {n}: {_shorten(each.why)}" for n, each in enumerate(earlier, 1)]
    text = last.why.strip()
    text = text if len(text) <= LONGEST_LAST else f"{text[:LONGEST_LAST]} …"
    parts.append(f"Attempt {len(failures)}: {text}" if earlier else text)
    names = list(dict.fromkeys(name for each in failures for name in each.refused))
    rows = [f"- {' '.join(name.split())[:LONGEST_REFUSED]}" for name in names[:MOST_REFUSED]]
    if rows:
        parts.append("\n".join(["Refused or not found, do without:", *rows]))
    return "\n\n".join(parts)


def _shorten(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    short = "\n".join(lines[:EARLIER_LINES])
    cut = len(lines) > EARLIER_LINES or len(short) > LONGEST_EARLIER
    return f"{short[:LONGEST_EARLIER]} …" if cut else short


def _normalize(text: str) -> str:
    return re.sub(r"\s+", " ", _VARYING.sub("#", text)).strip()


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
