"""What else makes a test demand less: a double for its subject, patience, new snapshots."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitlab_nightshift.verdict.change import Change, Found
from gitlab_nightshift.verdict.flags.tests_seen import Seen, shown, tests_seen
from gitlab_nightshift.verdict.syntax.assertions import Assertion
from gitlab_nightshift.verdict.syntax.nodes import CALLS, chain, field, text, walk
from gitlab_nightshift.verdict.syntax.values import assignment, calls_behind

if TYPE_CHECKING:
    from tree_sitter import Node

_PATIENCE = re.compile(
    r"\b(Timeout|flaky|reruns?|retryTimes|retries|retry|rerun_failures|RetryingTest"
    r"|RepeatedIfExceptionsTest"
    r"|RetryTest|Retry|Retryable|setTimeout|timeout|flakyTest|retriable|eventually_retry"
    r"|retry_on_failure)\b"
    r"\s*[(:=]?"
)
_SNAPSHOT = re.compile(
    r"(^|/)(__snapshots__|snapshots|__image_snapshots__|approvals)/|\.(snap|ambr"
    r"|approved\.\w+|golden|snapshot)$"
    r"|\.snap\.new$|(^|/)testdata/.*\.golden"
)
_DOUBLE = re.compile(
    r"""(?:\bpatch(?:\.object)?|monkeypatch\.setattr|mocker\.patch(?:\.object)?|mocker\.spy)\s*\(\s*
        (?P<target>[^)]*?)(?:,\s*(?:return_value|side_effect|new|lambda|autospec|Mock|MagicMock)|\)|,)""",
    re.VERBOSE,
)


def doubled(change: Change) -> Iterator[Found]:
    """Tests in which a double stands now for the function that they look at."""
    for old, new in tests_seen(change).changed:
        before = {name for name, _ in doubles(old)}
        for name, at in doubles(new):
            if name not in before and name in subjects(new):
                yield Found(
                    new.file.path,
                    at,
                    f"{new.name} puts a double in place of {name}, which it tests.",
                )
        if replaced := _replaced(old, new):
            yield Found(
                new.file.path, new.test.line, f"{new.name} looks at a double now: {shown(replaced)}"
            )
    yield from _mocked_modules(change)


def _replaced(old: Seen, new: Seen) -> str:
    """A variable that is asserted and holds a double now, empty where there is none."""
    before, after = _assigned(old.test.node), _assigned(new.test.node)
    roots = {re.split(r"\W", a.subject, maxsplit=1)[0] for a in new.assertions}
    for pair in [assignment(node) for node in walk(new.test.node)]:
        if pair and roots & set(re.findall(r"\w+", text(pair[0])[:200])):
            roots |= set(re.findall(r"\w+", text(pair[1])[:200]))
    for name, value in after.items():
        if name in roots and _FAKE.search(value) and not _FAKE.search(before.get(name, value)):
            return f"{name} = {value}"
    return ""


def _assigned(node: "Node") -> dict[str, str]:
    pairs = [assignment(each) for each in walk(node)]
    return {text(pair[0]): text(pair[1])[:400] for pair in pairs if pair}


_FAKE = re.compile(
    r"(?i)\b(new\s+)?&?(fake|stub|mock|dummy|magicmock|asyncmock|spy|double|instance_double"
    r"|createstub)\w*\s*[({<]"
    r"|\b\w+(fake|stub|mock|double)\s*[({]"
)


def _mocked_modules(change: Change) -> Iterator[Found]:
    for file in change.files:
        stem = re.split(r"[._-](?:test|spec)\b", file.path.rsplit("/", 1)[-1])[0]
        if file.status == "A" or stem == file.path.rsplit("/", 1)[-1]:
            continue
        for added in file.added:
            found = re.search(r"\b(?:jest|vi)\.mock\(\s*[\"'`]([^\"'`]+)", added.text)
            if found and found[1].rsplit("/", 1)[-1].split(".")[0] == stem:
                yield Found(
                    file.path, added.number, f"{found[1]}, which the file tests, is mocked now."
                )


def doubles(seen: Seen) -> list[tuple[str, int]]:
    """The functions that a test replaces by doubles, with the line."""
    found = [
        (_last_name(match["target"]), seen.test.line)
        for mark in seen.test.marks
        for match in _DOUBLE.finditer(mark[:4000])
    ]
    for node in walk(seen.test.node):
        if node.type in CALLS or node.type in ("assignment", "assignment_expression"):
            name = _doubled(node)
            if name:
                found.append((name, node.start_point[0] + 1))
    return [(name, at) for name, at in found if name]


def _doubled(node: "Node") -> str:
    """The function that a statement replaces; empty where it replaces none."""
    if node.end_byte - node.start_byte > _LONGEST_STATEMENT:
        return ""
    if node.type in ("assignment", "assignment_expression"):
        target, value = text(field(node, "left")), text(field(node, "right"))
        return _last_name(target) if "." in target and _MOCK.match(value) else ""
    words, code = [link.name for link in chain(node)], text(node)
    if words[-1:] and words[-1] in ("patch", "object", "setattr"):
        at = max(code.find("patch("), code.find("patch.object"), 0)
        match = _DOUBLE.match(code[at:])
        return _last_name(match["target"]) if match else ""
    for names, pattern in _STUBS:
        if any(names.match(word) for word in words):
            found = pattern.search(code)
            return found[1] if found else ""
    return ""


_LONGEST_STATEMENT = 4000
_MOCK = re.compile(r"(\w+\.)*(Mock|MagicMock|AsyncMock|fn|stub|fake)\(")
_STUBS = (
    (
        re.compile(r"mockReturn|mockImpl|mockResolved|mockRejected|returns$|callsFake|resolves$"),
        re.compile(r"(?:spyOn|stub)\(\s*[\w.]+\s*,\s*[\"'](\w+)"),
    ),
    (
        re.compile(r"(allow|stubs|stub)$"),
        re.compile(r"(?:receive|stubs|stub)\(?\s*:(\w+)"),
    ),
    (
        re.compile(r"(when|doReturn|given|every)$"),
        re.compile(r"(?:when|given|every)\s*[({]\s*[\w.]*?\b(\w+)\s*\("),
    ),
)


def _last_name(target: str) -> str:
    quoted: list[str] = re.findall(r"[\"']([\w.]+)[\"']", target)
    if quoted:
        return quoted[-1].rsplit(".", 1)[-1]
    return re.sub(r"\W+$", "", target).rsplit(".", 1)[-1]


def subjects(seen: Seen) -> frozenset[str]:
    """The functions whose results a test asserts, through its variables."""
    return frozenset(
        name
        for a in seen.assertions
        for part in a.parts[:2]
        for name in calls_behind(part, seen.origins)
    )


_HARMLESS = frozenset(
    "len str int float list tuple set dict sorted Decimal date datetime timedelta range round"
    " format"
    " dumps loads join split encode decode dedent strip String Number Date Math abs min max repeat"
    " toString to_string valueOf of new Path replace get Sprintf clone collect to_owned into"
    " from vec"
    " map filter keys values Object parse".split()
)


def is_computed(expected: "Node", assertion: Assertion, seen: Seen) -> bool:
    """True where an expected value comes from the function that is tested."""
    behind = calls_behind(expected, seen.origins) - _HARMLESS
    subject = [part for part in assertion.parts if part != expected][:1]
    tested = frozenset(name for part in subject for name in calls_behind(part, seen.origins))
    return bool(behind & tested - _HARMLESS)


def patient(change: Change) -> Iterator[Found]:
    """Retries and longer waits that were added to tests that were there."""
    for old, new in tests_seen(change).changed:
        was, now = _waits(old), _waits(new)
        more = list(now - was) or _longer(old, new)
        for word in more[:1]:
            yield Found(new.file.path, new.test.line, f"{new.name} is given more patience: {word}.")
    for file in change.files:
        if not any(new.file is file for _, new in tests_seen(change).pairs):
            continue
        gone = " ".join(each.text for each in file.deleted)
        for added in file.added:
            found = re.search(
                r"\b(jest\.retryTimes|vi\.setConfig\(\{\s*retry|this\.retries|jest\.setTimeout"
                r"|retries:)",
                added.text,
            )
            if found and found[1] not in gone and not _inside_test(change, file.path, added.number):
                yield Found(file.path, added.number, f"Tests are given more patience: {found[1]}.")


def _inside_test(change: Change, path: str, number: int) -> bool:
    return any(
        new.file.path == path and new.test.line <= number <= new.test.end
        for _, new in tests_seen(change).changed
    )


def _waits(seen: Seen) -> Counter[str]:
    said = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`", '""', " ".join(seen.words))
    found = Counter(match[1] for match in _PATIENCE.finditer(said))
    if seen.test.language.name in ("javascript", "typescript", "tsx"):
        found += Counter("timeout" for mark in seen.test.marks if re.fullmatch(r"[\d_]{4,}", mark))
    return found


def _longer(old: Seen, new: Seen) -> list[str]:
    """The words for a wait or for retries whose number grew."""
    was, now = _durations(old), _durations(new)
    return [
        word
        for word, times in now.items()
        if len(times) == len(was.get(word, []))
        and any(a > b for a, b in zip(times, was[word], strict=True))
    ]


def _durations(seen: Seen) -> dict[str, list[float]]:
    said = " ".join(seen.words)
    found: dict[str, list[float]] = {}
    for match in _PATIENCE.finditer(said):
        after = _DURATION.search(said[match.end() : match.end() + 90])
        if after:
            unit = _UNITS.get((after[2] or "").lower()[:3], 1.0)
            found.setdefault(match[1], []).append(float(after[1].replace("_", "")) * unit)
    return found


_DURATION = re.compile(
    r"(\d[\d_.]*)\W*(?:unit\W*TimeUnit\W*)?(MILLI\w*|SECOND\w*|MINUTE\w*|HOUR\w*|ms|s|m)?\b"
)
_UNITS = {"mil": 0.001, "ms": 0.001, "sec": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "hou": 3600.0}


def regenerated(change: Change) -> Iterator[Found]:
    """Snapshots whose recorded values changed."""
    for file in change.files:
        if _SNAPSHOT.search(file.path) and file.status in "MR" and file.deleted:
            yield Found(
                file.path,
                file.deleted[0].number,
                "Recorded values of a snapshot changed: the tests follow the code.",
            )
