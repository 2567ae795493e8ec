"""One row of ``nightshift doctor``: what was checked, its state, what to do."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.errors import NightshiftError

RowState = Literal["ok", "warn", "fail", "not known"]


@dataclass(frozen=True)
class DoctorRow:
    """``exit_status`` is what a night would end with because of it, 0 if it would start."""

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
