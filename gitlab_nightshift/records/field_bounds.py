"""Bounds of a record's fields, for types such as ``Annotated[str, Length(500)]``.

Standard library only. pydantic and hypothesis understand them by the annotated-types protocol.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Grouped = Literal[True]


@dataclass(frozen=True)
class Length:
    """The length of a string or a tuple, from ``least`` to ``most``."""

    most: int
    least: int = 0
    broken: ClassVar = "it is too long or too short"
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import MaxLen, MinLen

        return iter((MinLen(self.least), MaxLen(self.most)) if self.least else (MaxLen(self.most),))

    def holds(self, value: Any) -> bool:
        """True for a value within the bounds."""
        return self.least <= len(value) <= self.most


@dataclass(frozen=True)
class Between:
    """A number from ``least`` to ``most``."""

    least: int
    most: int
    broken: ClassVar = "it is out of range"
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import Ge, Le

        return iter((Ge(self.least), Le(self.most)))

    def holds(self, value: float) -> bool:
        """True for a value within the bounds."""
        return self.least <= value <= self.most


@dataclass(frozen=True)
class Pattern:
    """A string that fully matches a regular expression."""

    expression: str
    broken: ClassVar = "it has the wrong format"

    def holds(self, value: str) -> bool:
        """True for a string that matches."""
        return re.fullmatch(self.expression, value) is not None
