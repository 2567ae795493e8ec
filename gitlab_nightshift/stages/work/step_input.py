"""A bead's input besides the analysis: earlier failures, the last patch, the evidence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code
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
