"""A job of CI or a recipe: what it runs, and what decides whether it counts."""

from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.verdict.tooling.command_lines import CommandLine


@dataclass
class CiJob:
    """What a job runs (``commands``, ``uses``), and what makes it count less.

    ``lenient`` names switches that let it fail, ``never`` conditions under which it does not run
    and ``always`` those under which it does; ``limits`` are numbers such as retries,
    and of steps that check something on no condition.
    """

    commands: list[CommandLine] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)
    lenient: dict[str, str] = field(default_factory=dict)
    never: list[str] = field(default_factory=list)
    always: list[str] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


def as_mapping(value: Any) -> dict[str, Any]:
    """A mapping, empty where the value is none."""
    return value if isinstance(value, dict) else {}
