"""The row of ``nightshift doctor``."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.errors import NightshiftError

RowState = Literal["ok", "warn", "fail", "not known"]


@dataclass(frozen=True)
class DoctorRow:
    """One checked point: its state, and in ``text`` what was found and what to do. ``exit_status``
    is that of a night that would end because of it, 0 if none would."""

    name: str
    state: RowState
    text: str
    exit_status: int = 0


def refuse(name: str, error: NightshiftError) -> DoctorRow:
    """The row of an error that ends a night."""
    return DoctorRow(name, "fail", error.message, error.exit_status)


def try_rows(name: str, look: Callable[[], Iterable[DoctorRow]]) -> Iterator[DoctorRow]:
    """The rows of ``look``; an error becomes a row too, so that the next checks still run."""
    try:
        yield from look()
    except NightshiftError as error:
        yield refuse(name, error)
