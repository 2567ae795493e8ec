"""What a run's beads have cost, as the gateway's process reports it to whoever started it.

One JSON line for a bead whenever its figures have changed; the last line of a bead counts. Standard
library alone: the reader may be a process that imports nothing else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LINE_BYTES = 4096
"""The longest line, its end included: a pipe takes that much whole or not at all."""
BEADS, MOST = 500, 1e12
"""Beads of a run; the highest value of any figure."""
_COUNTS = ("tokens", "assumed_tokens", "pending_tokens")
_SUMS = ("usd", "assumed_usd", "pending_usd")


@dataclass(frozen=True)
class UsageFigures:
    """USD and tokens. ``usd`` is None where a model has no known price. ``assumed`` is the part of
    it that no endpoint has reported; ``pending`` the worst case of requests on their way, which is
    used up, too, where nothing more is heard."""

    usd: float | None = 0.0
    tokens: int = 0
    assumed_usd: float = 0.0
    assumed_tokens: int = 0
    pending_usd: float = 0.0
    pending_tokens: int = 0

    def __add__(self, other: "UsageFigures") -> "UsageFigures":
        known = self.usd is not None and other.usd is not None
        usd = (self.usd or 0.0) + (other.usd or 0.0) if known else None
        rest = (*_COUNTS, *_SUMS[1:])
        return UsageFigures(
            usd, **{name: getattr(self, name) + getattr(other, name) for name in rest}
        )


@dataclass
class Totals:
    """Reads the lines while they come; a line that is none is counted in ``bad`` and left out."""

    bad: int = 0
    _beads: dict[int, tuple[str, UsageFigures]] = field(default_factory=dict)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        """The next bytes of the pipe."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LINE_BYTES]
        for line in lines:
            self._take(line)

    def list_beads(self) -> tuple[tuple[str, UsageFigures], ...]:
        """Each bead's name and figures, in the order of their beginning."""
        return tuple(self._beads[number] for number in sorted(self._beads))

    def compute_sum(self) -> UsageFigures:
        """The sum over all beads."""
        return sum((figures for _, figures in self.list_beads()), UsageFigures())

    def _take(self, line: bytes) -> None:
        try:
            number, name, figures = read_line(line)
        except (ValueError, TypeError, KeyError, RecursionError):
            self.bad += 1
        else:
            self._beads[number] = name, figures


def to_line(number: int, name: str, figures: UsageFigures) -> bytes:
    """A bead's line; it is the ``number``-th of the run."""
    values = {name: getattr(figures, name) for name in (*_SUMS, *_COUNTS)}
    # allow_nan: NaN is not JSON, and compares with nothing.
    row = json.dumps({"bead": number, "name": name, **values}, allow_nan=False)
    return row.encode() + b"\n"


def read_line(line: bytes) -> tuple[int, str, UsageFigures]:
    """Raises ValueError, TypeError or KeyError for what :func:`to_line` does not write."""
    if len(line) >= LINE_BYTES:
        raise ValueError("too long")
    row: Mapping[str, Any] = json.loads(line)
    if set(row) != {"bead", "name", *_SUMS, *_COUNTS} or not isinstance(row["name"], str):
        raise ValueError("not a bead's line")
    counts = {name: _check_number(row[name], int) for name in _COUNTS}
    sums = {name: _check_number(row[name], int, float) for name in _SUMS[1:]}
    usd = None if row["usd"] is None else _check_number(row["usd"], int, float)
    number = _check_number(row["bead"], int)
    if number >= BEADS:
        raise ValueError("too many beads")
    return number, row["name"], UsageFigures(usd=usd, **counts, **sums)


def _check_number(value: Any, *kinds: type) -> Any:
    """A number that is not negative."""
    if type(value) not in kinds or not 0 <= value <= MOST:
        raise ValueError("not a figure")
    return value
