"""dependency-file: manifests and lock files in which dependencies change.

A night's change is refused for any change of such a file (``change_rules.find_violations``). Here,
for people's changes, only the parts of it count that decide what is installed.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from gitlab_nightshift.policy.manifest_files import DEPENDENCY_FILES
from gitlab_nightshift.policy.path_patterns import matches
from gitlab_nightshift.policy.settings_parser import UNREADABLE, list_changed_tables
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.repository.difference import ChangedFile

_TABLE = RuleTable(__file__)
_COMMENTED = _TABLE.get_pattern("commented")
_MOST_NAMED = 3


def find_dependency_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Manifests and lock files whose dependencies change."""
    for file in change.files:
        if part := describe_dependencies(file):
            yield RuleViolation(
                file.path, file.find_line(()), f"Dependencies or their sources change: {part}."
            )


def describe_dependencies(file: ChangedFile) -> str:
    """The changed parts of a file that decide what is installed; "" without any."""
    paths = {file.path, file.old_path}
    if not any(matches(path, DEPENDENCY_FILES) for path in paths):
        return ""
    name = file.path.rpartition("/")[2].lower()
    if not file.deleted and not file.added and file.status == "M" and not file.binary:
        return ""  # only its mode changed
    if lines := _find_row(name, "lines"):
        return _compare_lines(file, _TABLE.compile(lines["matter"], re.IGNORECASE).search)
    if _COMMENTED.search(file.path.rpartition("/")[2]):
        return _compare_lines(file, lambda text: not re.match(r"\s*(#|//|$)", text))
    return _compare_parts(file, name)


def _find_row(name: str, kind: str) -> Any:
    rows = _TABLE.entries[kind]
    return next((row for row in rows if re.search(row["file"], name)), {})


def _compare_parts(file: ChangedFile, name: str) -> str:
    """The parts that differ; in a lock file, all but the project's own version."""
    own, parts = _find_row(name, "own"), _find_row(name, "parts")
    text = re.compile(own.get("text", "(?!)").encode(), re.MULTILINE)
    old, new = (side and text.sub(b"", side) for side in (file.old, file.new))
    if old == new and not file.binary:
        return ""
    changed = list_changed_tables(file.path, old, new, tuple(parts.get("names", "*").split()))
    if UNREADABLE in changed:
        return "the whole file"
    changed = [key for key in changed if not re.search(own.get("keys", "(?!)"), key)]
    more = ["…"] if len(changed) > _MOST_NAMED else []
    return ", ".join([*changed[:_MOST_NAMED], *more])


def _compare_lines(file: ChangedFile, matters: Callable[[str], object]) -> str:
    """The first changed line that matters; "" if only the order of lines changed."""
    old, new = (
        sorted(re.sub(r"\s*(#|//).*| ", "", line.text) for line in side if matters(line.text))
        for side in (file.deleted, file.added)
    )
    if old == new:
        return ""
    changed = [line for line in (*new, *old) if (line in new) != (line in old)] or new or old
    return changed[0][:80]
