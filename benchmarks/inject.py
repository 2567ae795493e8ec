"""What `nightshift check` sees of cheats: ``python benchmarks/inject.py REPO [REPO ...]``.

Each cheat of ``cheats.toml`` is put into real files of any clones, one at a time, as a commit in a
copy of the clone. A table per language, style and cheat says how many were stopped (a ``fail``) by
reading, by running (with --run), told (a lower level), and silent; then what got past, to be read.
"""

import argparse
import os
import random
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.commands.change_check import CheckRequest, Judgement, check
from gitlab_nightshift.commands.check_commit import check_and_run

CHEATS = Path(__file__).with_name("cheats.toml")
_ENV = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/nonexistent")}
_ENV |= {name: value for name, value in os.environ.items() if name.startswith("NIGHTSHIFT_")}
_GIT = (
    "git",
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@example.org",
    "-c",
    "core.hooksPath=/dev/null",
)
_TESTS = re.compile(r"(?i)(^|/)[^/]*(test|spec)(s|ing)?\b[^/]*(/|$)|_test\.go$|(tests?|spec)\.\w+$")
_NOT_OWN = re.compile(r"(^|/)(fixtures?|testdata|vendor|third_party|examples?)/")


@dataclass(frozen=True)
class Injection:
    """A cheat at a place: ``text`` is the file's new text, ``shown`` the line that it is about."""

    language: str
    style: str
    cheat: str
    path: str
    line: int
    shown: str
    text: str


@dataclass(frozen=True)
class InjectionResult:
    """What became of a cheat: stopped by "reading" or by "running", "told", or "silent"."""

    repository: str
    injection: Injection
    how: str
    flags: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Inject; print table and list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPO")
    parser.add_argument("--places", type=int, default=5, metavar="N", help="of a cheat in a style")
    parser.add_argument("--run", default="", metavar="COMMAND", help="run where reading is silent")
    parser.add_argument("--prepare", default="", metavar="COMMAND", help="once in each copy")
    parser.add_argument("--list", default="told,silent", metavar="HOW", help="what is listed")
    args = parser.parse_args(arguments)
    whole = [
        result
        for folder in args.repositories
        for result in try_repository(folder.resolve(), args.places, args.run, args.prepare)
    ]
    print(*format_table(whole), "", *format_list(whole, args.list.split(",")), sep="\n")


def try_repository(
    folder: Path, places: int, command: str = "", prepare: str = ""
) -> list[InjectionResult]:
    """Put a sample of all possible cheats, the same each time, into a copy of the clone."""
    with tempfile.TemporaryDirectory(prefix="inject-") as temporary:
        top = Path(temporary) / folder.name
        subprocess.run(("git", "clone", "-q", "--shared", folder, top), check=True)
        if prepare:
            subprocess.run(prepare, shell=True, cwd=top, check=True)  # noqa: S602 - the caller's
        chosen = sample_injections(list(list_injections(top)), places)
        return [try_injection(top, injection, command) for injection in chosen]


def sample_injections(found: Sequence[Injection], places: int) -> list[Injection]:
    """At most so many of each cheat in each style."""
    kinds: dict[tuple[str, str, str], list[Injection]] = {}
    for each in found:
        kinds.setdefault((each.language, each.style, each.cheat), []).append(each)
    chance = random.Random(0)  # noqa: S311 - no secret
    return [e for k in sorted(kinds) for e in chance.sample(kinds[k], min(places, len(kinds[k])))]


def try_injection(top: Path, injection: Injection, command: str) -> InjectionResult:
    """Commit the cheat in ``top``, judge it, and take it back."""
    with (top / injection.path).open("w", encoding="utf-8", newline="") as file:
        file.write(injection.text)
    _run_git(top, "commit", "-q", "-a", "-m", "change")
    try:
        judged = check(CheckRequest(top, _ENV, "HEAD"))
        how = "reading" if judged.failed else "told" if judged.findings else "silent"
        if command and not judged.failed:
            env = {**_ENV, "NIGHTSHIFT_VERIFY_COMMANDS": command}
            judged = check_and_run(CheckRequest(top, env, "HEAD"), lambda _event: None)
            how = "running" if judged.failed else "told" if judged.findings else "silent"
    finally:
        _run_git(top, "reset", "-q", "--hard", "HEAD~1")
    return InjectionResult(top.name, injection, how, _list_flags(judged))


def _list_flags(judged: Judgement) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.name for finding in judged.findings))


def _run_git(top: Path, *arguments: str) -> bytes:
    done = subprocess.run((*_GIT, *arguments), cwd=top, check=True, capture_output=True)
    return done.stdout


def list_injections(top: Path) -> Iterator[Injection]:
    """All places of the checkout where a cheat is possible."""
    cheats = tomllib.loads(CHEATS.read_text())
    for path in _run_git(top, "ls-files", "-z").decode().split("\0"):
        place = top / path
        if not place.is_file() or place.is_symlink() or _NOT_OWN.search(path):
            continue
        try:
            with place.open(encoding="utf-8", newline="") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue
        for style in cheats["styles"]:
            if re.search(style["paths"], path):
                yield from cheat_tests(style, path, text)
        for edit in cheats["edits"]:
            if re.search(edit["paths"], path):
                yield from edit_text(edit, path, text)


def edit_text(edit: dict[str, str], path: str, text: str) -> Iterator[Injection]:
    """Each match of an edit's pattern; errors are swallowed outside tests only."""
    if edit["cheat"] == "swallow" and _TESTS.search(path):
        return
    for match in re.finditer(edit["pattern"], text):
        new = text[: match.start()] + match.expand(edit["replacement"]) + text[match.end() :]
        line = text.count("\n", 0, match.start()) + 1
        shown = match.group().strip().splitlines()[0]
        yield Injection(edit["language"], "", edit["cheat"], path, line, shown, new)


def cheat_tests(style: dict[str, Any], path: str, text: str) -> Iterator[Injection]:
    """Each cheat in each test of a file."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not re.search(style["opens"], line.rstrip()):
            continue
        first, end = _find_block(lines, number)
        block = lines[first:end]
        if re.search(style.get("sign", ""), "".join(block)):
            for cheat, at, new in _change_block(style, block):
                changed = "".join((*lines[:first], *new, *lines[end:]))
                shown = (block[at] if at >= 0 else line).strip()
                place = first + max(at, 0) + 1
                yield Injection(
                    style["language"], style["name"], cheat, path, place, shown, changed
                )


def _find_block(lines: Sequence[str], opening: int) -> tuple[int, int]:
    """A test with its annotations, by indentation: first line, and the line after the last."""
    first = opening
    while first and re.match(r"\s*(@|#\[)", lines[first - 1]):
        first -= 1
    indent = _count_indent(lines[opening])
    end = opening + 1
    while end < len(lines) and (
        not lines[end].strip()
        or _count_indent(lines[end]) > indent
        or re.match(r"\s*(\{|\).*[:{])\s*$", lines[end])
    ):
        end += 1
    if end < len(lines) and re.match(r"\s*(\}|\)|end\b)", lines[end]):
        return first, end + 1
    while not lines[end - 1].strip():
        end -= 1
    return first, end


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _change_block(
    style: dict[str, Any], block: Sequence[str]
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """Each cheat in one test: its name, the line in it (-1 for the whole test), the new lines."""
    yield "delete", -1, ()
    whole = "".join(block)
    for cheat in ("skip", "rename", "mock"):
        pattern, replacement = style.get(cheat, ("(?!)", ""))
        new = re.sub(pattern, replacement, whole, count=1, flags=re.MULTILINE)
        if new != whole:
            yield cheat, -1, (new,)
    asserting = [n for n, line in enumerate(block) if re.search(style["asserts"], line.rstrip())]
    for number in asserting:
        if len(asserting) > 1:
            yield "remove", number, _remove_assertion(block, number)
        for pattern, replacement in style["loosen"]:
            line = block[number].rstrip()
            looser = re.sub(pattern, replacement, line, count=1) + block[number][len(line) :]
            if looser != block[number]:
                yield "loosen", number, (*block[:number], looser, *block[number + 1 :])
                break


def _remove_assertion(block: Sequence[str], number: int) -> Sequence[str]:
    """With the condition around it, where that holds nothing else."""
    around = number + 1 < len(block) and re.match(r"\s*if\b.*\{$", block[number - 1].rstrip())
    if around and block[number + 1].strip() == "}":
        return (*block[: number - 1], *block[number + 2 :])
    return (*block[:number], *block[number + 1 :])


def format_table(whole: Sequence[InjectionResult]) -> Iterator[str]:
    """Per language, style and cheat, then per language and in all: how many went which way."""
    hows = ("reading", "running", "told", "silent")
    yield f"{'':34}{'cheats':>9}" + "".join(f"{how:>9}" for how in (*hows, "stopped"))
    rows: dict[str, list[InjectionResult]] = {}
    for each in whole:
        found = each.injection
        kind = _name_kind(found)
        for name in (kind, found.language, f"all {found.cheat}", "all"):
            rows.setdefault(name, []).append(each)
    for name in sorted(rows, key=lambda name: (name.startswith("all"), name)):
        counts = [sum(each.how == how for each in rows[name]) for how in hows]
        stopped = 100 * (counts[0] + counts[1]) / len(rows[name])
        numbers = "".join(f"{number:9}" for number in (len(rows[name]), *counts))
        yield f"{name:34}{numbers}{stopped:8.1f}%"


def _name_kind(found: Injection) -> str:
    return " ".join(filter(None, (found.language, found.style, found.cheat)))


def format_list(whole: Sequence[InjectionResult], listed: Sequence[str]) -> Iterator[str]:
    """The cheats that ended in one of these ways, with their places and flags."""
    for each in whole:
        found = each.injection
        if each.how in listed:
            yield f"{each.how}: {_name_kind(found)}: {each.repository} {found.path}:{found.line}"
            yield f"    {found.shown[:110]}  {', '.join(each.flags)}".rstrip()


if __name__ == "__main__":
    main()
