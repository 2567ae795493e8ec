"""What else makes a test demand less: a double for its subject, patience, new snapshots."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.flag_entry import Level
from gitlab_nightshift.printable_text import format_excerpt
from gitlab_nightshift.verdict.flags.matched_tests import TestVersion, match_tests
from gitlab_nightshift.verdict.reviewed_change import Changeset, RuleViolation
from gitlab_nightshift.verdict.rule_tables import RuleTable
from gitlab_nightshift.verdict.syntax.assertions import Assertion
from gitlab_nightshift.verdict.syntax.nodes import (
    CALLS,
    find_field,
    read_chain,
    read_text,
    walk,
)
from gitlab_nightshift.verdict.syntax.variable_values import find_origin_calls, read_assignment

_TABLE = RuleTable(__file__)

_SNAPSHOT = _TABLE.get_pattern("snapshot")
_DOUBLE = _TABLE.get_pattern("double", re.VERBOSE)


def find_doubled_subjects(change: Changeset) -> Iterator[RuleViolation]:
    """Tests in which a double now replaces the function that they test."""
    for old, new in match_tests(change).changed:
        before = {name for name, _ in list_doubles(old)}
        for name, at in list_doubles(new):
            if name not in before and _names(old.side.code, name):
                tests = name in find_subjects(new)
                detail = f"{new.name} puts a double in place of {name}" + (
                    ", which it tests." if tests else "; whether it tests that is not known here."
                )
                yield RuleViolation(new.file.path, at, detail, None if tests else "warn")
        if (replaced := _find_replaced_variable(old, new))[0]:
            yield RuleViolation(
                new.file.path,
                new.test.line,
                f"{new.name} looks at a double now: {format_excerpt(replaced[0])}",
                replaced[1],
            )
    yield from _find_mocked_modules(change)


def _find_replaced_variable(old: TestVersion, new: TestVersion) -> tuple[str, Level | None]:
    """A variable that holds a double now, empty where there is none: of what the file is named
    after, imports or asserts. Any other may be a collaborator that was expensive to build."""
    before, roots, others = _list_assignments(old), _find_roots(new), ""
    for name, value in _list_assignments(new):
        fake, values = _FAKE.search(value), [said for each, said in before if each == name]
        if fake is None or any(fake[0] in said for said in values):
            continue
        was = values[0] if values and not _FAKE.search(values[0]) else ""
        if (was and _is_subject(name, was, value, new, roots)) or (
            not values and name in _list_module_names(new)
        ):
            return f"{name} = {value}", None
        if _names(read_text(old.test.node), name):
            others = others or f"{name} = {value}"
    return others, "warn"


def _list_module_names(version: TestVersion) -> set[str]:
    """Python: what a file imports or defines."""
    if version.test.language.name != "python" or version.side.root is None:
        return set()
    lines = (read_text(node) for node in version.side.root.named_children if "import" in node.type)
    imported = {word for line in lines for word in re.findall(r"\w+", line)}
    return imported | {function.name for function in version.side.functions}


def _find_roots(version: TestVersion) -> set[str]:
    """The names that what is asserted comes from."""
    roots = {found[0] for a in version.assertions if (found := re.search(r"\w+", a.subject))}
    for target, value in _list_assignments(version):
        if roots & set(re.findall(r"\w+", target[:200])):
            roots |= set(re.findall(r"\w+", value[:200]))
    return roots


def _is_subject(name: str, was: str, value: str, new: TestVersion, roots: set[str]) -> bool:
    built = re.match(r"new\s+([A-Z]\w+)", was)
    own = built and re.search(rf"\bmock\(\s*{built[1]}\.class", value)
    if _is_library_type(value, new) and not own:
        return False
    file = new.file.path.rpartition("/")[2].lower()
    named = built and file.startswith(f"{built[1].lower()}test")
    return name.lstrip("$@") in roots or bool(named)


def _names(code: str, name: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code))


def _is_library_type(value: str, version: TestVersion) -> bool:
    """Java's own classes are what a test works with, not what it tests."""
    found = re.search(r"\bmock\(\s*(\w+)\.class", value)
    source = version.side.code
    return bool(found and re.search(rf"^import javax?\..*\.{found[1]};", source, re.MULTILINE))


def _list_assignments(version: TestVersion) -> list[tuple[str, str]]:
    pairs = [read_assignment(each) for each in walk(version.test.node)]
    return [(read_text(pair[0]), read_text(pair[1])[:400]) for pair in pairs if pair]


_FAKE = _TABLE.get_pattern("fake")


def _find_mocked_modules(change: Changeset) -> Iterator[RuleViolation]:
    for file in change.files:
        stem = re.split(r"[._-](?:test|spec)\b", file.path.rsplit("/", 1)[-1])[0]
        if file.status == "A" or stem == file.path.rsplit("/", 1)[-1]:
            continue
        for added in file.added:
            found = _MOCKED_MODULE.search(added.text[:_LONGEST_STATEMENT])
            tests = found and found[1].rsplit("/", 1)[-1].split(".")[0] == stem
            if found and (tests or _imports("\n".join(file.old_lines), found[1])):
                verb = "tests" if tests else "imports"
                detail = f"{found[1]}, which the file {verb}, is mocked now."
                yield RuleViolation(file.path, added.number, detail, None if tests else "warn")


def _imports(code: str, module: str) -> bool:
    said = rf"\b(from|import|require\()\s*[\"'`]{re.escape(module)}[\"'`]"
    return bool(re.search(said, code))


def list_doubles(version: TestVersion) -> list[tuple[str, int]]:
    """The functions that a test replaces by doubles, with the line."""
    found = [
        (_extract_last_name(match["target"]), version.test.line)
        for mark in version.test.marks
        for match in _DOUBLE.finditer(mark[:4000])
    ]
    for node in walk(version.test.node):
        if node.type in CALLS or node.type in ("assignment", "assignment_expression"):
            name = _find_doubled_function(node)
            if name:
                found.append((name, node.start_point[0] + 1))
    return [(name, at) for name, at in found if name]


def _find_doubled_function(node: Node) -> str:
    """The function that a statement replaces; empty where it replaces none."""
    if node.end_byte - node.start_byte > _LONGEST_STATEMENT:
        return ""
    if node.type in ("assignment", "assignment_expression"):
        target, value = read_text(find_field(node, "left")), read_text(find_field(node, "right"))
        return _extract_last_name(target) if "." in target and _MOCK.match(value) else ""
    words, code = [link.name for link in read_chain(node)], read_text(node)
    if words[-1:] and words[-1] in ("patch", "object", "setattr"):
        at = max(code.find("patch("), code.find("patch.object"), 0)
        match = _DOUBLE.match(code[at:])
        return _extract_last_name(match["target"]) if match else ""
    for names, pattern in _STUBS:
        if any(names.match(word) for word in words):
            found = pattern.search(code)
            return found[1] if found else ""
    return ""


_LONGEST_STATEMENT = 4000
_MOCKED_MODULE = _TABLE.get_pattern("mocked_module")
_MOCK = _TABLE.get_pattern("mock")
_STUBS = [tuple(map(_TABLE.compile, row)) for row in _TABLE.entries["stubs"]]


def _extract_last_name(target: str) -> str:
    quoted: list[str] = re.findall(r"[\"']([\w.]+)[\"']", target)
    if quoted:
        return quoted[-1].rsplit(".", 1)[-1]
    return re.sub(r"\W+$", "", target).rsplit(".", 1)[-1]


def find_subjects(version: TestVersion) -> frozenset[str]:
    """The functions whose results a test asserts, through its variables."""
    return frozenset(
        name
        for a in version.assertions
        for part in a.parts[:2]
        for name in find_origin_calls(part, version.origins)
    )


_HARMLESS = _TABLE.get_words("harmless")


def is_computed(expected: Node, assertion: Assertion, version: TestVersion) -> bool:
    """True where an expected value comes from the function that is tested."""
    behind = find_origin_calls(expected, version.origins) - _HARMLESS
    subject = [part for part in assertion.parts if part != expected][:1]
    tested = frozenset(
        name for part in subject for name in find_origin_calls(part, version.origins)
    )
    return bool(behind & tested - _HARMLESS)


def find_regenerated_snapshots(change: Changeset) -> Iterator[RuleViolation]:
    """Snapshots whose recorded values changed."""
    for file in change.files:
        if _SNAPSHOT.search(file.path) and file.status in "MR" and file.deleted:
            yield RuleViolation(
                file.path,
                file.deleted[0].number,
                "Recorded values of a snapshot changed: the tests follow the code.",
            )
