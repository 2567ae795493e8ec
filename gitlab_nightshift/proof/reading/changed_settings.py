"""tool-settings: what a change does to settings of linters, types, coverage and test runners."""

from collections.abc import Iterator

from gitlab_nightshift.policy.tool_settings import Side, list_changed_settings
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.repository.difference import ChangedFile


def find_changed_tool_settings(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Once a file, with the tables and keys that differ. A night refuses it
    (``change_rules.find_violations``)."""
    lines = {file.path: file.find_line(()) for file in change.files}
    for path, what in find_changed_settings(change).items():
        yield RuleViolation(path, lines.get(path, 0), f"Settings of tools differ: {what}.")


def find_changed_settings(change: Changeset) -> dict[str, str]:
    """The files of a change with other settings of tools, each with what differs there."""
    return list_changed_settings(side for file in change.files for side in _list_sides(file))


def _list_sides(file: ChangedFile) -> Iterator[Side]:
    """A file that moved is gone at one place and new at the other. A binary one has no texts."""
    old, new = (b"\0old", b"\0new") if file.binary else (file.old, file.new)
    if file.raw_path == file.raw_old_path:
        yield file.path, old if file.status != "A" else None, new if file.status != "D" else None
    else:
        yield file.old_path, old, None
        yield file.path, None, new
