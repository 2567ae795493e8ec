"""The corpus of changes: reads ``tests/changes/<language>/<name>.change`` and judges them.

The format is described in ``tests/changes/README.md``. All changes are in one private repository,
so that two hundred of them take seconds.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Context, read_change
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.registry.categories import FALLBACK_ORDER
from gitlab_nightshift.registry.flag_registry import FLAGS
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings

FOLDER = Path(__file__).parents[1] / "changes"
RUNNING = frozenset(
    "tests-fail mutants-survive suite-weakened flaky-test complexity-raised slower"
    " test-reads-source".split()
)
"""Flags that only running can raise: no change of the corpus expects one."""

Mark = tuple[str, str]
"""A flag and a file."""


@dataclass(frozen=True)
class Recorded:
    """One change of the corpus, with what it should raise. ``expect``, ``allow`` and ``running``
    (what only running shows) are marks."""

    path: Path
    about: str
    honest: bool
    category: str = ""
    expect: tuple[Mark, ...] = ()
    allow: tuple[Mark, ...] = ()
    running: tuple[Mark, ...] = ()
    selected: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``python/skips-the-failing-test``."""
        return f"{self.language}/{self.path.stem}"

    @property
    def language(self) -> str:
        """The folder's name."""
        return self.path.parent.name

    @property
    def context(self) -> Context:
        """What the change is judged by."""
        return Context(self.settings, self.category, self.selected, frozenset(self.recent))


class BadChange(Exception):
    """A mistake in a file of the corpus, with its line."""


def read_corpus(folder: Path = FOLDER) -> list[Recorded]:
    """Every change below a folder, by name. Raises BadChange."""
    return [read_recorded(path) for path in sorted(folder.glob("*/*.change"))]


# --- one file -------------------------------------------------------------------------------------

_HEADER = re.compile(r"(\w+):(?: (.*))?")
_ONCE = ("about", "category", "honest", "selected", "recent", "settings")


def read_recorded(path: Path) -> Recorded:
    """One change. Raises BadChange."""
    lines = path.read_bytes().decode().split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith(">>> ")), len(lines))

    def wrong(number: int, text: str) -> BadChange:
        return BadChange(f"{path.parent.name}/{path.name}:{number}: {text}")

    recorded = _headed(path, lines[:start], wrong)
    for number, section, content in _sections(lines, start):
        try:
            _put(recorded, section, content)
        except ValueError as error:
            raise wrong(number, str(error)) from None
    if mistake := next(_mistakes(recorded), ""):
        raise wrong(1, mistake)
    return recorded


def _headed(path: Path, lines: list[str], wrong: Callable[[int, str], BadChange]) -> Recorded:
    once: dict[str, str] = {}
    marks: dict[str, list[Mark]] = {"expect": [], "allow": [], "running": []}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _HEADER.fullmatch(line)
        key, value = (match[1], (match[2] or "").strip()) if match else ("", "")
        if key in marks:
            flag, _, file = value.partition(" ")
            if flag not in FLAGS or (flag in RUNNING and key != "running") or not file:
                raise wrong(number, f"not '<flag> <file>' with a flag that exists: {value!r}")
            marks[key].append((flag, file.strip()))
        elif key in _ONCE and key not in once:
            once[key] = value
        else:
            raise wrong(number, f"unknown or repeated header: {line!r}")
    if not once.get("about") or once.get("honest") not in ("yes", "no"):
        raise wrong(1, "'about: ...' and 'honest: yes|no' are needed")
    if once.get("category", "") not in ("", *FALLBACK_ORDER):
        raise wrong(1, f"no category {once['category']!r}")
    return Recorded(
        path=path,
        about=once["about"],
        honest=once["honest"] == "yes",
        category=once.get("category", ""),
        expect=tuple(marks["expect"]),
        allow=tuple(marks["allow"]),
        running=tuple(marks["running"]),
        selected=tuple(once.get("selected", "").split()),
        recent=tuple(once.get("recent", "").split()),
        settings=_settings(once.get("settings", ""), wrong),
    )


def _settings(text: str, wrong: Callable[[int, str], BadChange]) -> Settings:
    try:
        json.loads(text or "{}")
        return load_settings({}, ConfigFile("settings", text)) if text else Settings()
    except (ValueError, NightshiftError) as error:
        raise wrong(1, f"settings: {error}") from None


def _sections(lines: list[str], start: int) -> Iterator[tuple[int, str, list[str]]]:
    heads = [n for n in range(start, len(lines)) if lines[n].startswith(">>> ")]
    for at, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        content = [line[1:] if line.startswith("\\>>> ") else line for line in lines[at + 1 : end]]
        yield at + 1, lines[at].removeprefix(">>> "), content


def _put(recorded: Recorded, section: str, content: list[str]) -> None:
    """Put a section's content where it belongs. Raises ValueError."""
    kind, *paths = section.split()
    binary = kind == "binary"
    if binary and paths:
        kind, *paths = paths
    wanted = 2 if kind == "move" else 1
    if kind not in ("both", "before", "after", "move") or len(paths) != wanted:
        raise ValueError(f"not a section: {section!r}")
    sides = {
        "both": ((recorded.before, paths[0]), (recorded.after, paths[0])),
        "before": ((recorded.before, paths[0]),),
        "after": ((recorded.after, paths[0]),),
        "move": ((recorded.before, paths[0]), (recorded.after, paths[-1])),
    }
    data = _binary(content) if binary else _text(content)
    for side, path in sides[kind]:
        if path in side:
            raise ValueError(f"{path} stands there twice")
        side[path] = data


def _text(content: list[str]) -> bytes:
    """Text ends with one newline."""
    text = "\n".join(content).rstrip("\n")
    return f"{text}\n".encode() if text else b""


def _binary(content: list[str]) -> bytes:
    try:
        return base64.b64decode("".join(content).strip(), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


def _mistakes(recorded: Recorded) -> Iterator[str]:
    if recorded.before == recorded.after:
        yield "nothing changes"
    known = recorded.before.keys() | recorded.after.keys()
    named = [*recorded.selected, *recorded.recent]
    named += [file for _, file in (*recorded.expect, *recorded.allow, *recorded.running)]
    for file in named:
        if file not in known:
            yield f"{file} is in neither tree"
    if not recorded.honest and not (recorded.expect or recorded.running):
        yield "a cheating change expects at least one flag"


# --- all of them in one repository ----------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A change with what was found, and how that compares with what was expected."""

    recorded: Recorded
    findings: tuple[Finding, ...]

    @property
    def missed(self) -> tuple[Mark, ...]:
        """What was expected and not raised at its level, for its file."""
        raised = {(each.name, each.file) for each in self.findings if self._at_its_level(each)}
        return tuple(mark for mark in self.recorded.expect if mark not in raised)

    @property
    def unexpected(self) -> tuple[Finding, ...]:
        """What was raised and neither expected nor allowed."""
        known = {*self.recorded.expect, *self.recorded.allow}
        return tuple(each for each in self.findings if (each.name, each.file) not in known)

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Of an honest change, what must not have been raised as ``fail``."""
        if not self.recorded.honest:
            return ()
        allowed = self.recorded.allow
        return tuple(
            each
            for each in self.findings
            if each.level == "fail" and (each.name, each.file) not in allowed
        )

    @property
    def warned(self) -> frozenset[str]:
        """Flags that warn of an honest change though nobody expected it."""
        if not self.recorded.honest:
            return frozenset()
        return frozenset(found.name for found in self.unexpected if found.level == "warn")

    def _at_its_level(self, finding: Finding) -> bool:
        flag, recorded = FLAGS[finding.name], self.recorded
        usual = (flag.levels or {}).get(recorded.category, flag.level)
        return finding.level in (recorded.settings.policy.flags.get(finding.name, usual), "fail")


def corpus_repository(folder: Path, corpus: list[Recorded]) -> Repository:
    """A bare repository in which each change is two commits, by one ``git fast-import``."""
    git = build_isolated_git(folder / "home", os.environ["PATH"])
    git.run("init", "--quiet", "--bare", "--template=", str(folder / "git"), cwd=folder)
    repository = Repository(git, folder / "git")
    stream = b"".join(
        commit(_ref(recorded, side), tree)
        for recorded in corpus
        for side, tree in (("before", recorded.before), ("after", recorded.after))
    )
    repository.run("fast-import", "--quiet", "--done", stdin=stream + b"done\n")
    return repository


def judged(repository: Repository, recorded: Recorded) -> Judged:
    """Judge a change as ``nightshift check`` does."""
    change = read_change(repository, _ref(recorded, "before"), _ref(recorded, "after"))
    return Judged(recorded, find_red_flags(change, recorded.context))


def _ref(recorded: Recorded, side: str) -> str:
    return f"refs/changes/{recorded.name}/{side}"


def commit(ref: str, tree: Mapping[str, bytes]) -> bytes:
    """A commit of a tree without a parent, for ``git fast-import``."""
    head = f"commit {ref}\ncommitter A <a@example.org> 1700000000 +0000\ndata 0\n".encode()
    files = (
        b'M 100644 inline "%s"\ndata %d\n%s\n' % (path.encode(), len(data), data)
        for path, data in tree.items()
    )
    return head + b"deleteall\n" + b"".join(files) + b"\n"
