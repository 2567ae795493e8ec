"""Bounds of what a record holds, for types as ``Annotated[str, Length(500)]``.

Standard library alone. pydantic and hypothesis read them by the protocol of annotated-types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Grouped = Literal[True]


@dataclass(frozen=True)
class Length:
    """Characters of a text, or members of a tuple: at most, and at least."""

    most: int
    least: int = 0
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import MaxLen, MinLen

        return iter((MinLen(self.least), MaxLen(self.most)) if self.least else (MaxLen(self.most),))


@dataclass(frozen=True)
class Between:
    """A number from ``least`` to ``most``."""

    least: int
    most: int
    __is_annotated_types_grouped_metadata__: ClassVar[Grouped] = True

    def __iter__(self) -> Iterator[Any]:
        from annotated_types import Ge, Le

        return iter((Ge(self.least), Le(self.most)))
