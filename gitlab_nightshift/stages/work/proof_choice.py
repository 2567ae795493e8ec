"""Which commands prove a change: plan chooses them, and work runs them."""

from dataclasses import dataclass

NOTHING_TO_RUN = "found no command that tests this project: set verify_commands"


@dataclass(frozen=True)
class Commands:
    """The commands to run. ``implied``: the build files say so, not the settings."""

    commands: tuple[str, ...]
    implied: bool
