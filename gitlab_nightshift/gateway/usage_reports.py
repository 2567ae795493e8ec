"""The usage of a run's beads, which the gateway's process reports to its parent, even if the work
fails.

One JSON line for a bead whenever its usage has changed; the last line of a bead counts. Standard
library alone: the reader may be a process that imports nothing else.
"""

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from gitlab_nightshift.records.codec import (
    Between,
    InvalidRecordError,
    decode_record,
    encode_record,
)
from gitlab_nightshift.records.usage import Usage

LINE_BYTES = 4096
"""The longest line, with its end: a write of up to PIPE_BUF bytes is atomic (pipe(7))."""
MOST_BEADS = 500
"""Beads of a run."""
LARGEST_FIGURE = 1e12
"""The highest value of any figure of a usage."""


@dataclass(frozen=True)
class BeadLine:
    """A bead's usage: ``number`` counts the run's beads from 0; ``usage`` is the most that this one
    can have used."""

    number: Annotated[int, Between(0, MOST_BEADS - 1)]
    usage: Usage


class UsageWriter:
    """Writes a line for each bead whose usage has changed. Lines that do not fit into the pipe are
    written the next time."""

    def __init__(self, pipe: int) -> None:
        # Nothing may make the gateway wait: a slow reader gets the sums later.
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._written: dict[int, Usage] = {}

    def write(self, beads: Iterable[Usage]) -> bool:
        """Write each usage that has changed, in order; False if some are left for later."""
        for number, usage in enumerate(beads):
            if usage == self._written.get(number):
                continue
            try:
                os.write(self._pipe, to_line(number, usage))
            except BlockingIOError:
                return False
            except OSError:  # nobody reads
                return True
            self._written[number] = usage
        return True


@dataclass
class UsageReader:
    """Reads lines as they arrive; invalid ones are only counted."""

    invalid_lines: int = 0
    _usage: dict[int, Usage] = field(default_factory=dict)
    _unfinished: bytes = b""

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the pipe."""
        *lines, unfinished = (self._unfinished + data).split(b"\n")
        # A line without an end must not fill the reader's memory.
        self._unfinished = unfinished[:LINE_BYTES]
        for line in lines:
            try:
                report = read_line(line)
            except InvalidRecordError:
                self.invalid_lines += 1
            else:
                self._usage[report.number] = report.usage

    def list_usage(self) -> tuple[Usage, ...]:
        """The most that each bead can have used, the oldest bead first."""
        return tuple(self._usage[number] for number in sorted(self._usage))


def to_line(number: int, usage: Usage) -> bytes:
    """The line that reports a bead's usage."""
    return encode_record(BeadLine(number, usage)) + b"\n"


def read_line(line: bytes) -> BeadLine:
    """Parse a line without its end. Raises InvalidRecordError for what no gateway reports."""
    if len(line) >= LINE_BYTES:
        raise InvalidRecordError("it is too long")
    report = decode_record(BeadLine, line)
    if not all(0 <= (value or 0) <= LARGEST_FIGURE for value in dataclasses.astuple(report.usage)):
        raise InvalidRecordError("no run uses so much")
    return report
