"""Rules about the files that a change touches: generated, third-party, binary and recently changed
files, too many lines, files outside the night's paths or selection, tool settings, dependencies,
and changes of white space alone."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gitlab_nightshift.policy.path_patterns import is_in_scope, matches
from gitlab_nightshift.policy.protected_files import (
    DEPENDENCY_FILES,
    FileVersions,
    list_changed_settings,
)
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import is_product
from gitlab_nightshift.registry.flag_registry import Level
from gitlab_nightshift.repository.difference import ChangedFile
from gitlab_nightshift.repository.git_formats import SUBMODULE

_TABLE = RuleTable(__file__)

_GENERATED_PATHS = _TABLE.get_pattern("generated_paths", re.IGNORECASE)
_GENERATED_MARK = _TABLE.get_pattern("generated_mark", re.IGNORECASE)
_HEAD_LINES = 15  # lines at the start of a file in which a mark is looked for
_VENDORED = _TABLE.get_pattern("vendored")
_DOCS = _TABLE.get_pattern("docs", re.IGNORECASE)
_BENCHMARKS = _TABLE.get_pattern("benchmarks")
_TOOL_SETTINGS = _TABLE.get_pattern("tool_settings")
# The first line of a pointer (git-lfs, docs/spec.md).
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def is_docs(path: str) -> bool:
    """True for documentation, by its path."""
    return _DOCS.search(path) is not None


def is_vendored(path: str) -> bool:
    """True for third-party code in the repository, by its folder."""
    return _VENDORED.search(path) is not None


def find_generated_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Generated files; only a warning if the source changed, too."""
    declared = _find_files_with_attribute(change, "linguist-generated")
    names = [file.path.rpartition("/")[2] for file in change.files if file.new]
    for file in change.files:
        heads = (*file.old_lines[:_HEAD_LINES], *file.new_lines[:_HEAD_LINES])
        is_marked = any(map(_GENERATED_MARK.match, heads)) or _GENERATED_PATHS.search(file.path)
        if file.status == "D" or not (file.path in declared or is_marked):
            continue
        if source := _find_source(file, names):
            detail = f"Generated, and {source} changed, too: make sure that it was regenerated."
            yield RuleViolation(file.path, 0, detail, "warn")
        else:
            yield RuleViolation(file.path, 0, "Generated: edit its source instead.")


def _find_source(file: ChangedFile, names: Iterable[str]) -> str:
    """The name of the changed file that this one was probably generated from: its first lines name
    it, or the names are alike. "" without one."""
    own_name = file.path.rpartition("/")[2]
    suffixes = r"(_grpc|_pb2?|_generated|\.min|\.generated|\.pb|\.g)+$"
    stem = re.sub(suffixes, "", own_name.split(".")[0])
    head = "\n".join(file.new_lines[:_HEAD_LINES])
    for name in names:
        if name != own_name and (name in head or name.split(".")[0] == stem):
            return name
    return ""


def find_vendored_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Third-party code in the repository, including submodules."""
    declared = _find_files_with_attribute(change, "linguist-vendored")
    for file in change.files:
        if SUBMODULE in (file.old_mode, file.new_mode):
            yield RuleViolation(file.path, 0, "A submodule: another commit of third-party code.")
        elif file.path in declared or is_vendored(file.path):
            yield RuleViolation(file.path, 0, "Third-party code: change it upstream.")


def _find_files_with_attribute(change: Changeset, attribute: str) -> frozenset[str]:
    """The changed files to which the ``.gitattributes`` at the root gives an attribute."""
    text = (change.read(".gitattributes") or b"").decode("utf-8", "replace")
    patterns = [
        line.split()[0]
        for line in text.splitlines()
        if re.search(rf"\s{attribute}(=true)?(\s|$)", line) and not line.startswith("#")
    ]
    return frozenset(f.path for f in change.files if patterns and matches(f.path, patterns))


def find_binary_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Binary files that are new or changed, not only moved or deleted."""
    for file in change.files:
        new = file.new or b""
        if file.status != "D" and (file.binary or (new.startswith(_LFS_POINTER) and file.added)):
            yield RuleViolation(file.path, 0, "A binary file: nobody can review it.")


def find_recent_files(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files that the last commits touched."""
    for file in change.files:
        if {file.path, file.old_path} & context.recent_files:
            yield RuleViolation(file.path, 0, "Touched by one of the last commits: leave it alone.")


def find_too_large_diff(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """A change with more added and deleted lines than ``max_diff_lines``. In a night's change, all
    lines of a moved file count, as for the night's own limit; in a person's, only those that
    differ, as in GitLab's diff."""
    limit = context.settings.max_diff_lines
    lines = 0
    for file in change.files:
        if file.status == "R" and not context.by_people:
            lines += len(file.old_lines) + len(file.new_lines)
        else:
            lines += len(file.deleted) + len(file.added)
    if lines > limit:
        longest = max(change.files, key=lambda file: len(file.added) + len(file.deleted))
        detail = f"{lines} added and deleted lines; at most {limit}: make a smaller change."
        yield RuleViolation(longest.path, 0, detail)


def find_files_outside_paths(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files outside ``paths`` or inside ``exclude_paths``; of a moved file, both paths count."""
    for file in change.files:
        for path in sorted({file.old_path, file.path}):
            if not is_in_scope(path, context.settings):
                yield RuleViolation(file.path, 0, f"{path} is outside paths, or in exclude_paths.")


def find_files_outside_selection(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files that the analysis did not select, unless they are tests of a selected file."""
    stems = list(filter(None, map(_normalize_stem, context.selected)))
    for file in change.files if context.selected else ():
        if {file.path, file.old_path} & {*context.selected}:
            continue
        if not _accompanies_code(file.path):
            yield RuleViolation(file.path, 0, "Not selected by the analysis: leave it as it is.")
        # A test is named like what it tests: test_cart.py for cart.py.
        elif not any(stem in _normalize_stem(file.path) for stem in stems):
            detail = "Not selected by the analysis, but no product code."
            yield RuleViolation(file.path, 0, detail, "warn")


def _accompanies_code(path: str) -> bool:
    """True for files that change along with code: docs, tests, benchmarks, manifests, settings."""
    if _BENCHMARKS.search(path) or _TOOL_SETTINGS.search(path) or is_docs(path):
        return True
    return matches(path, DEPENDENCY_FILES) or not is_product(path)


def _normalize_stem(path: str) -> str:
    stem = path.rpartition("/")[2].split(".")[0].lower()
    return re.sub(r"^tests?_|_?(tests?|spec|suite)$|[^a-z0-9]", "", stem)


# --- tool settings --------------------------------------------------------------------------------


def find_changed_tool_settings(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Each file with changed tool settings, and which keys differ. A night's change of such a file
    is refused (``change_rules.find_violations``)."""
    lines = {file.path: file.find_first_line() for file in change.files}
    for path, keys in find_changed_settings(change).items():
        yield RuleViolation(path, lines.get(path, 0), f"Tool settings differ: {keys}.")


def find_changed_settings(change: Changeset) -> dict[str, str]:
    """The files with changed tool settings, each with what differs."""
    return list_changed_settings(side for file in change.files for side in _list_versions(file))


def _list_versions(file: ChangedFile) -> Iterator[FileVersions]:
    """A file's path and versions; a moved file is deleted at one path and new at the other."""
    # The sides of a binary file are not read, but differ.
    old, new = (b"\0old", b"\0new") if file.binary else (file.old, file.new)
    if file.raw_path == file.raw_old_path:
        yield file.path, old if file.status != "A" else None, new if file.status != "D" else None
    else:
        yield file.old_path, old, None
        yield file.path, None, new


# --- dependencies ---------------------------------------------------------------------------------


_DEPENDENCIES = RuleTable(__file__, "dependency_files.toml")
_COMMENTED = _DEPENDENCIES.get_pattern("commented")
_MOST_NAMED = 3


def find_dependency_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Manifests and lock files whose dependencies change."""
    for file in change.files:
        if parts := describe_dependencies(file):
            detail = f"Dependencies or their sources change: {parts}."
            yield RuleViolation(file.path, file.find_first_line(), detail)


def describe_dependencies(file: ChangedFile) -> str:
    """The changed parts of a file that decide what is installed; "" without any."""
    paths = {file.path, file.old_path}
    if not any(matches(path, DEPENDENCY_FILES) for path in paths):
        return ""
    name = file.path.rpartition("/")[2].lower()
    if not file.deleted and not file.added and file.status == "M" and not file.binary:
        return ""  # only its mode changed
    if rule := _find_rule(name, "lines"):
        return _compare_lines(file, _DEPENDENCIES.compile(rule["matter"], re.IGNORECASE).search)
    if _COMMENTED.search(file.path.rpartition("/")[2]):
        return _compare_lines(file, lambda text: not re.match(r"\s*(#|//|$)", text))
    return _compare_parts(file, name)


def _find_rule(name: str, kind: str) -> Any:
    rules = _DEPENDENCIES.entries[kind]
    return next((rule for rule in rules if re.search(rule["file"], name)), {})


def _compare_parts(file: ChangedFile, name: str) -> str:
    """The keys that differ, without the project's own in a lock file; "" without any."""
    from gitlab_nightshift.policy.settings_parser import (  # few changes need its parsers
        UNREADABLE,
        list_changed_keys,
    )

    own, parts = _find_rule(name, "own"), _find_rule(name, "parts")
    own_text = re.compile(own.get("text", "(?!)").encode(), re.MULTILINE)
    old, new = (side and own_text.sub(b"", side) for side in (file.old, file.new))
    if old == new and not file.binary:
        return ""
    keys = tuple(parts.get("names", "*").split())
    changed = list_changed_keys(file.path, old, new, keys)
    if UNREADABLE in changed:
        return "the whole file"
    changed = [key for key in changed if not re.search(own.get("keys", "(?!)"), key)]
    ellipsis = ["…"] if len(changed) > _MOST_NAMED else []
    return ", ".join([*changed[:_MOST_NAMED], *ellipsis])


def _compare_lines(file: ChangedFile, matters: Callable[[str], object]) -> str:
    """The first changed line that ``matters``; "" if only the order of such lines changed."""
    old, new = (
        sorted(re.sub(r"\s*(#|//).*| ", "", line.text) for line in side if matters(line.text))
        for side in (file.deleted, file.added)
    )
    if old == new:
        return ""
    changed = [line for line in (*new, *old) if (line in new) != (line in old)] or new or old
    return changed[0][:80]


# --- white space ----------------------------------------------------------------------------------


_INDENTED_FILES = _TABLE.get_pattern("indented_files")
_QUOTED = _TABLE.get_pattern("quoted")


def find_whitespace_changes(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files with lines that differ only in white space or line endings. If a night changed nothing
    else, that is a failure; people format code on purpose."""
    formatted = [(file, *_find_formatted(file)) for file in change.files]
    substantial = any(has_others or not lines for _, lines, has_others in formatted)
    level: Level | None = "fail" if context.category and not substantial else None
    for file, lines, _ in formatted:
        if lines:
            places = "1 place differs" if len(lines) == 1 else f"{len(lines)} places differ"
            detail = f"{places} only in white space or line endings: leave such lines alone."
            yield RuleViolation(file.path, lines[0], detail, level)


def _find_formatted(file: ChangedFile) -> tuple[list[int], bool]:
    """The first line of each hunk in which only white space differs, and whether there are other
    hunks."""
    if file.status in "AD" or file.binary:
        return [], True
    lines: list[int] = []
    blank = 0
    hunks = file.hunks
    indented = bool(hunks) and _is_indentation_significant(file)
    for hunk in hunks:
        # A hunk without lines on one side has the number of the line before it.
        old = file.old_lines[hunk.old - 1 : hunk.old - 1 + hunk.old_count] if hunk.old_count else []
        new = file.new_lines[hunk.new - 1 : hunk.new - 1 + hunk.new_count] if hunk.new_count else []
        if not "".join(old + new).strip():
            blank += 1
        elif _strip_whitespace(old, indented=indented) == _strip_whitespace(new, indented=indented):
            lines.append(max(hunk.new, 1))
    has_others = len(lines) + blank < len(hunks) or file.status != "M"
    if blank and not has_others and not lines:  # only blank lines were added or removed
        lines = [max(hunk.new, 1) for hunk in hunks]
    return lines, has_others


def _strip_whitespace(lines: Iterable[str], *, indented: bool) -> str:
    """Lines without insignificant white space; if they are ``indented``, the white space at their
    start counts. Quoted text is kept."""
    if indented:
        indents = ((line, line[: len(line) - len(line.lstrip())]) for line in lines)
        stripped = (indent + _strip_whitespace([line], indented=False) for line, indent in indents)
        return "\n".join(line if line.strip() else "" for line in stripped)
    parts = _QUOTED.split(" ".join(lines))  # every second part is quoted
    return "".join(part if n % 2 else re.sub(r"\s+", "", part) for n, part in enumerate(parts))


def _is_indentation_significant(file: ChangedFile) -> bool:
    """True if indentation may be significant in this change: with it, the parsed data differs."""
    if not _INDENTED_FILES.search(file.path):
        return False
    old, new = (_parse_content(file.path, side or b"") for side in (file.old, file.new))
    return old is None or old != new


def _parse_content(path: str, data: bytes) -> object:
    """A file's data without its white space; None if it cannot be parsed."""
    try:
        if path.endswith((".py", ".pyi")):
            return ast.dump(ast.parse(data))
        from gitlab_nightshift.policy.settings_parser import parse_data

        return parse_data(path, data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
