"""tool-settings: changed settings of linters, type checkers, coverage and test runners."""

from collections.abc import Iterator

from gitlab_nightshift.policy.tool_settings import Side, list_changed_settings
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.repository.difference import ChangedFile


def find_changed_tool_settings(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Each file with changed tool settings, and which tables and keys differ. A night's change with
    one is refused (``change_rules.find_violations``)."""
    lines = {file.path: file.find_line(()) for file in change.files}
    for path, what in find_changed_settings(change).items():
        yield RuleViolation(path, lines.get(path, 0), f"Tool settings differ: {what}.")


def find_changed_settings(change: Changeset) -> dict[str, str]:
    """The files with changed tool settings, each with what differs."""
    return list_changed_settings(side for file in change.files for side in _list_sides(file))


def _list_sides(file: ChangedFile) -> Iterator[Side]:
    """The sides of a file; a moved one is deleted at one path and new at the other."""
    # A binary file has no contents here, but any difference counts.
    old, new = (b"\0old", b"\0new") if file.binary else (file.old, file.new)
    if file.raw_path == file.raw_old_path:
        yield file.path, old if file.status != "A" else None, new if file.status != "D" else None
    else:
        yield file.old_path, old, None
        yield file.path, None, new
