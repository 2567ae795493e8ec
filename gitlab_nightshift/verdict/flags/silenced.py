"""suppression-added: comments and annotations that silence a tool."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gitlab_nightshift.verdict.change import Change, Context, Found
from gitlab_nightshift.verdict.flags.tests_seen import shown
from gitlab_nightshift.verdict.syntax.nodes import line, text, walk
from gitlab_nightshift.verdict.syntax.side import Side, sides

_IN_COMMENTS = re.compile(
    r"(?P<tool>#\s*(?:ruff|flake8):\s*noqa|#\s*noqa\b|#\s*type:\s*ignore\b|#\s*py(?:lint"
    r"|right|re|type):\s*"
    r"(?:disable|ignore|skip-file|basic|fixme)[\w-]*|#\s*mypy:\s*(?:ignore-errors"
    r"|disable-error-code|allow)[\w-]*"
    r"|#\s*pragma:\s*no\s*(?:cover|branch|mutate)|#\s*nosec\b|//\s*#nosec\b|\bnosemgrep\b"
    r"|#\s*ty:\s*ignore"
    r"|\beslint-disable(?:-next-line|-line)?\b|\beslint\s+[\w@/-]+\s*:\s*(?:0"
    r"|[\"']?off)|@ts-(?:ignore|expect-error|nocheck)\b|\btslint:disable(?:-next-line"
    r"|-line)?\b"
    r"|\bbiome-ignore\b|\b(?:istanbul|c8|v8|node:coverage)\s+(?:ignore|disable)\b"
    r"|\bjshint\s+ignore|\bstylelint-disable[\w-]*"
    r"|//\s*nolint\b|//\s*lint:(?:ignore|file-ignore)\b|\bNOSONAR\b|\bCHECKSTYLE[.:]\s*(?:OFF"
    r"|SUPPRESS|IGNORE)\b|\bCPD-OFF\b"
    r"|\bNOPMD\b|\bnoinspection\b|\brubocop:(?:disable|todo)\b|#\s*:nocov:|\bstandard:disable\b"
    r"|\bscalastyle:off\b|\bscalafix:(?:off|ok)\b"
    r"|\$COVERAGE-OFF\$|\bphpcs:(?:ignore|disable|ignoreFile)\b|@phpstan-ignore[\w-]*"
    r"|@psalm-suppress\b|@codeCoverageIgnore\w*"
    r"|\bReSharper\s+disable\b|\bktlint-disable\b|#\s*shellcheck\s+disable|\bhadolint\s+ignore"
    r"|\byamllint\s+disable[\w-]*"
    r"|\bmarkdownlint-(?:disable|capture)[\w-]*|\bLCOV_EXCL_\w+|\btflint-ignore"
    r"|\bdetekt:disable|@lint-ignore|\bcspell:disable"
    r"|\bcodespell:ignore|\bsonar-ignore|\bsorbet:\s*ignore|#\s*typed:\s*(?:false"
    r"|ignore)|\bsteep:ignore|\bcheckov:skip|\bskipcq\b|\bdeepcode\s+ignore|\bmypy:\s*ignore)"
    r"(?P<rest>[^\n]*)",
)
_MARKS = re.compile(
    r"^(?P<tool>@(?:\w+\.)*(?:SuppressWarnings|SuppressFBWarnings|SuppressLint"
    r"|Suppress|nowarn|silent|no_type_check"
    r"|SuppressMessage|SuppressForbidden|SuppressJava6Requirement|CoverageIgnore"
    r"|unchecked)\b|#!?\[\s*(?:cfg_attr\([^,]*,\s*)?(?:allow|expect)\s*\("
    r"|#!?\[\s*coverage\(\s*off|#!?\[\s*cfg_attr\(tarpaulin|\[\s*(?:\w+:\s*)?(?:\w+\.)*(?:SuppressMessage"
    r"|ExcludeFromCodeCoverage)\b)(?P<rest>[\s\S]*)"
)
_MARK_NODES = frozenset(
    "decorator annotation marker_annotation attribute_item inner_attribute_item attribute_list"
    " file_annotation".split()
)
_PRAGMA = re.compile(r"^\s*#pragma\s+warning\s+disable(?P<rest>.*)")
_NOT_CODE = re.compile(r"\.(md|rst|txt|json|lock|adoc|svg|csv|snap|html?)$")


_LONGEST = 20_000
_MAY_SILENCE = re.compile(
    r"(?i)noqa|ignore|disable|pragma|nosec|nosem|ts-|nolint|lint:|nosonar|off\b"
    r"|nopmd|noinspection|rubocop|nocov|eslint"
    r"|suppress|lcov|skipcq|typed:|mypy|pylint|pyright|pytype|checkov|nowarn|silent"
    r"|no_type_check|allow|expect|coverage"
    r"|unchecked|scala|todo|lint|cover|skip"
)


@dataclass(frozen=True)
class Silence:
    """A suppression: the tool's word, the rules that it names, its line and what stands there."""

    tool: str
    rules: frozenset[str]
    line: int
    said: str


def suppression_added(change: Change, _context: Context) -> Iterator[Found]:
    """Suppressions that came; one that moved or names fewer rules than before is none."""
    if not any(
        _MAY_SILENCE.search(added.text[:_LONGEST]) for file in change.files for added in file.added
    ):
        return
    before = [silence for file in change.files for silence in _of(sides(file)[0])]
    after = [(file, silence) for file in change.files for silence in _of(sides(file)[1])]
    there = Counter((silence.tool, silence.rules) for silence in before)
    news = []
    for file, silence in after:
        if there[silence.tool, silence.rules]:
            there[silence.tool, silence.rules] -= 1
        else:
            news.append((file, silence))
    left = [(tool, rules) for (tool, rules), count in there.items() for _ in range(count)]
    for file, silence in sorted(news, key=lambda each: -len(each[1].rules)):
        narrower = next((old for old in left if _covers(old, silence)), None)
        if narrower is not None:
            left.remove(narrower)
        else:
            yield Found(file.path, silence.line, f"A tool is silenced here: {shown(silence.said)}")


def _covers(old: tuple[str, frozenset[str]], new: Silence) -> bool:
    """An old suppression that was at least as wide."""
    tool, rules = old
    return tool == new.tool and (not rules or (bool(new.rules) and new.rules <= rules))


def _of(side: Side) -> Iterator[Silence]:
    if _NOT_CODE.search(side.path) and "markdownlint" not in side.source.decode("utf-8", "replace"):
        return
    yield from _in_comments(side) if side.source else ()
    if side.root is None or not _MAY_MARK.search(side.source):
        return
    for node in walk(side.root):
        if node.type in _MARK_NODES and (mark := _MARKS.match(text(node))):
            yield _silence(mark["tool"], mark["rest"], line(node), text(node))
        elif node.type == "preproc_pragma" and (pragma := _PRAGMA.match(text(node))):
            yield _silence("#pragma warning disable", pragma["rest"], line(node), text(node))


def _in_comments(side: Side) -> Iterator[Silence]:
    for number, said in side.comments:
        for found in _IN_COMMENTS.finditer(said):
            if "ts-expect-error" in found["tool"] and side.is_test_file:
                continue  # there it asserts that the types refuse something
            yield _silence(found["tool"], found["rest"], number, said)


_MAY_MARK = re.compile(
    rb"(?i)suppress|nowarn|silent|no_type_check|allow|expect|coverage|unchecked|pragma"
)


def _silence(tool: str, rest: str, number: int, said: str) -> Silence:
    """Reasons after the rules are not rules."""
    rest = re.split(r"\s--\s|//|\s#\s|\breason\b|\bjustification\b", rest)[0]
    rules = re.findall(r"[A-Za-z@][\w@./-]*[\w]", rest[:300])
    word = re.sub(r"[\s#/!\[(]+", "", tool).lower()
    return Silence(word, frozenset(rules), number, said.strip())
