"""Flags that look at which files a change touches: generated, vendored, binary, too many."""

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
    """True for documentation by its name."""
    return _DOCS.search(path) is not None


def is_vendored(path: str) -> bool:
    """True for somebody else's code that is kept in the repository, by its folder."""
    return _VENDORED.search(path) is not None


def find_generated_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """A generated file; only a warning where the file it is made from changed as well."""
    marked = _find_files_with_attribute(change, "linguist-generated")
    names = [file.path.rpartition("/")[2] for file in change.files if file.new]
    for file in change.files:
        if file.status == "D" or not (file.path in marked or _is_generated(file)):
            continue
        if source := _find_source(file, names):
            detail = f"Generated, and {source} changed as well: make sure that it was made anew."
            yield RuleViolation(file.path, 0, detail, "warn")
        else:
            said = "Generated: change what it is made of, not the file itself."
            yield RuleViolation(file.path, 0, said)


def _is_generated(file: ChangedFile) -> bool:
    heads = (*file.old_lines[:_MARK_LINES], *file.new_lines[:_MARK_LINES])
    return bool(_GENERATED_PATHS.search(file.path)) or any(map(_GENERATED_MARK.match, heads))


def _find_source(file: ChangedFile, names: Iterable[str]) -> str:
    """A changed file that this one was probably made from: its head or its own name says so."""
    own = file.path.rpartition("/")[2]
    stem = re.sub(r"(_grpc|_pb2?|_generated|\.min|\.generated|\.pb|\.g)+$", "", own.split(".")[0])
    head = "\n".join(file.new_lines[:_MARK_LINES])
    for name in names:
        if name != own and (name in head or name.split(".")[0] == stem):
            return name
    return ""


def find_vendored_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """Somebody else's code that is kept in the repository, submodules among it."""
    marked = _find_files_with_attribute(change, "linguist-vendored")
    for file in change.files:
        if GITLINK in (file.old_mode, file.new_mode):
            said = "A submodule: another commit of somebody else's code."
            yield RuleViolation(file.path, 0, said)
        elif file.path in marked or is_vendored(file.path):
            yield RuleViolation(
                file.path, 0, "Somebody else's code: change it where it comes from."
            )


def _find_files_with_attribute(change: Changeset, attribute: str) -> frozenset[str]:
    """The changed files to which the top ``.gitattributes`` gives an attribute."""
    text = (change.read(".gitattributes") or b"").decode("utf-8", "replace")
    patterns = [
        line.split()[0]
        for line in text.splitlines()
        if re.search(rf"\s{attribute}(=true)?(\s|$)", line) and not line.startswith("#")
    ]
    return frozenset(f.path for f in change.files if patterns and matches(f.path, patterns))


def find_binary_files(change: Changeset, _context: Context) -> Iterator[RuleViolation]:
    """A binary file that is new or another one; one that only moved or went is none."""
    for file in change.files:
        new = file.new or b""
        if file.status != "D" and (file.binary or (new.startswith(_LFS) and file.added)):
            yield RuleViolation(file.path, 0, "A binary file: nobody can review it.")


def find_recent_files(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """A file that the last commits touched."""
    for file in change.files:
        if {file.path, file.old_path} & context.recent_files:
            yield RuleViolation(file.path, 0, "Touched by one of the last commits: leave it alone.")


def find_too_large_diff(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """More added and deleted lines than ``max_diff_lines``. A moved file counts whole, as where the
    limit of a night is enforced; in a person's change only what differs, as GitLab shows it."""
    limit = context.settings.max_diff_lines
    lines = sum(_count_lines(file, whole=not context.by_people) for file in change.files)
    if lines > limit:
        longest = max(change.files, key=lambda file: len(file.added) + len(file.deleted))
        detail = f"{lines} added and deleted lines; at most {limit}: make a smaller change."
        yield RuleViolation(longest.path, 0, detail)


def _count_lines(file: ChangedFile, *, whole: bool) -> int:
    if whole and file.status == "R":
        return len(file.old_lines) + len(file.new_lines)
    return len(file.deleted) + len(file.added)


def find_files_outside_paths(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """A file outside ``paths`` or inside ``exclude_paths``; of a moved one, both places."""
    for file in change.files:
        outside = {p for p in (file.old_path, file.path) if not within(p, context.settings)}
        for path in sorted(outside):
            yield RuleViolation(file.path, 0, f"{path} is outside of paths, or in exclude_paths.")


def find_files_outside_selection(change: Changeset, context: Context) -> Iterator[RuleViolation]:
    """A file that was not selected; tests and docs of what was selected belong to it."""
    for file in change.files if context.selected else ():
        if {file.path, file.old_path} & {*context.selected}:
            continue
        if not _is_beside(file.path):
            yield RuleViolation(file.path, 0, "Not selected by the analysis: leave it as it is.")
        elif not _belongs(file.path, context.selected):
            said = "Not selected by the analysis; it is no product code."
            yield RuleViolation(file.path, 0, said, "warn")


def _is_beside(path: str) -> bool:
    """True for what goes with product code: docs, tests, benchmarks, manifests, settings."""
    known = _BENCHMARKS.search(path) or _TOOLS.search(path)
    manifest = matches(path, DEPENDENCY_FILES)
    return bool(known) or manifest or is_docs(path) or not is_product(path)


def _belongs(path: str, selected: Iterable[str]) -> bool:
    """True for a test that is called like a selected file: test_cart.py of cart.py."""
    name = _normalize_stem(path)
    return any(_normalize_stem(each) and _normalize_stem(each) in name for each in selected)


def _normalize_stem(path: str) -> str:
    stem = path.rpartition("/")[2].split(".")[0].lower()
    return re.sub(r"^tests?_|_?(tests?|spec|suite)$|[^a-z0-9]", "", stem)
