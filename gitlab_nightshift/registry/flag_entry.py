"""What the registry says of a red flag."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["fail", "warn", "note", "off"]
"""A note is told, and counts for nothing."""


@dataclass(frozen=True)
class FlagEntry:
    """``level`` is that of its findings where the settings name none, ``why`` is for a reviewer,
    ``what`` says what raises it,
    ``rule`` where its function is (module:function below ``proof/reading``), "" for one that only
    running raises; ``levels`` are levels that differ for a category, ``by_people`` is that of a
    change that no agent made where it differs, and ``asked`` says where such a change is only
    asked about: a finding that is not certain, or that the rest of the change explains."""

    level: Level
    why: str
    rule: str = ""
    what: str = field(kw_only=True)
    levels: Mapping[str, Level] = field(default_factory=dict)
    by_people: Level | None = None
    asked: str = ""

    @property
    def people(self) -> Level:
        """The level in a change that no agent made."""
        return self.by_people or self.level
