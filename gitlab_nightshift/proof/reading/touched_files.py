"""Flags about which files a change touches: generated, vendored, binary, too many, not selected."""

import re
from collections.abc import Iterable, Iterator

from gitlab_nightshift.policy.manifest_files import DEPENDENCY_FILES
from gitlab_nightshift.policy.path_patterns import matches, within
from gitlab_nightshift.proof.reviewed_change import Changeset, Context, RuleViolation
from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.proof.syntax.languages import is_product
from gitlab_nightshift.repository.difference import GITLINK, ChangedFile

_TABLE = RuleTable(__file__)

_GENERATED_PATHS = _TABLE.get_pattern("generated_paths", re.IGNORECASE)
_GENERATED_MARK = _TABLE.get_pattern("generated_mark", re.IGNORECASE)
_MARK_LINES = 15
_VENDORED = _TABLE.get_pattern("vendored")
_DOCS = _TABLE.get_pattern("docs", re.IGNORECASE)
_BENCHMARKS = _TABLE.get_pattern("benchmarks")
_TOOLS = _TABLE.get_pattern("tools")
_LFS = b"version https://git-lfs.github.com/spec/"


def is_docs(path: str) -> bool:
    """True for documentation, by its path."""
    return _DOCS.search(path) is not None


def is_vendored(path: str) -> bool:
    """True for third-party code in the repository, by its folder."""
    return _VENDORED.search(path) is not None


def find_generated_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Generated files; only a warning if the source changed, too."""
    marked = _find_files_with_attribute(change, "linguist-generated")
    names = [file.path.rpartition("/")[2] for file in change.files if file.new]
    for file in change.files:
        heads = (*file.old_lines[:_MARK_LINES], *file.new_lines[:_MARK_LINES])
        by_sign = _GENERATED_PATHS.search(file.path) or any(map(_GENERATED_MARK.match, heads))
        if file.status == "D" or not (file.path in marked or by_sign):
            continue
        if source := _find_source(file, names):
            detail = f"Generated, and {source} changed, too: make sure that it was regenerated."
            yield RuleViolation(file.path, 0, detail, "warn")
        else:
            yield RuleViolation(file.path, 0, "Generated: edit its source instead.")


def _find_source(file: ChangedFile, names: Iterable[str]) -> str:
    """The changed file that this one was probably generated from: named in its first lines, or
    like it."""
    own = file.path.rpartition("/")[2]
    stem = re.sub(r"(_grpc|_pb2?|_generated|\.min|\.generated|\.pb|\.g)+$", "", own.split(".")[0])
    head = "\n".join(file.new_lines[:_MARK_LINES])
    for name in names:
        if name != own and (name in head or name.split(".")[0] == stem):
            return name
    return ""


def find_vendored_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Third-party code in the repository, including submodules."""
    marked = _find_files_with_attribute(change, "linguist-vendored")
    for file in change.files:
        if GITLINK in (file.old_mode, file.new_mode):
            yield RuleViolation(file.path, 0, "A submodule: another commit of third-party code.")
        elif file.path in marked or is_vendored(file.path):
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
        if file.status != "D" and (file.binary or (new.startswith(_LFS) and file.added)):
            yield RuleViolation(file.path, 0, "A binary file: nobody can review it.")


def find_recent_files(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files that the last commits touched."""
    for file in change.files:
        if {file.path, file.old_path} & context.recent_files:
            yield RuleViolation(file.path, 0, "Touched by one of the last commits: leave it alone.")


def find_too_large_diff(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """More added and deleted lines than ``max_diff_lines``. In a night's change, all lines of a
    moved file count, as for the night's own limit; in a person's, only those that differ, as in
    GitLab's diff."""
    limit = context.settings.max_diff_lines
    lines = 0
    for file in change.files:
        whole = file.status == "R" and not context.by_people
        shown = (file.old_lines, file.new_lines) if whole else (file.deleted, file.added)
        lines += sum(map(len, shown))
    if lines > limit:
        longest = max(change.files, key=lambda file: len(file.added) + len(file.deleted))
        detail = f"{lines} added and deleted lines; at most {limit}: make a smaller change."
        yield RuleViolation(longest.path, 0, detail)


def find_files_outside_paths(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files outside ``paths`` or inside ``exclude_paths``; both paths of a moved one."""
    for file in change.files:
        outside = {p for p in (file.old_path, file.path) if not within(p, context.settings)}
        for path in sorted(outside):
            yield RuleViolation(file.path, 0, f"{path} is outside paths, or in exclude_paths.")


def find_files_outside_selection(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """Files that the analysis did not select, unless they are tests of a selected file."""
    selected = [_normalize_stem(path) for path in context.selected]
    for file in change.files if context.selected else ():
        if {file.path, file.old_path} & {*context.selected}:
            continue
        if not _accompanies_code(file.path):
            yield RuleViolation(file.path, 0, "Not selected by the analysis: leave it as it is.")
        # A test is named like what it tests: test_cart.py for cart.py.
        elif not any(s and s in _normalize_stem(file.path) for s in selected):
            detail = "Not selected by the analysis, but no product code."
            yield RuleViolation(file.path, 0, detail, "warn")


def _accompanies_code(path: str) -> bool:
    """True for files that change along with code: docs, tests, benchmarks, manifests, settings."""
    known = _BENCHMARKS.search(path) or _TOOLS.search(path)
    manifest = matches(path, DEPENDENCY_FILES)
    return bool(known) or manifest or is_docs(path) or not is_product(path)


def _normalize_stem(path: str) -> str:
    stem = path.rpartition("/")[2].split(".")[0].lower()
    return re.sub(r"^tests?_|_?(tests?|spec|suite)$|[^a-z0-9]", "", stem)
