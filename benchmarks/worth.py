"""What each rule of reading is worth: ``python benchmarks/worth.py [--changes] [--corpus CLONES]
[--inject REPO ...] [--honest REPO ...]``.

Cheats are judged as a night's: those of ``tests/changes``, of ``verdict/cheats`` (CLONES as in
``verdict.py``), and those that ``inject.py`` puts into clones. Honest are its commits, the small
commits at the ends of clones' histories, and the honest changes of ``tests/changes``; they are
judged as people's. A rule is the function in ``proof/reading`` that looks. The table says how many
cheats (one file of a change of ``tests/changes`` counts as one) each found, how many no other rule
did, and how many honest changes it refused or asked about. ``--list RULE`` prints these.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))

from history import list_small_commits
from inject import list_injections, sample_injections
from verdict_corpus import CORPUS, apply_edits, read_cheats, read_source

from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Context, RuleViolation, read_change
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_objects import read_tree_file, write_tree_with_files
from gitlab_nightshift.settings.model import Settings
from tests.support.changes import corpus_repository, judged, read_corpus

_REASON = re.compile(r"cannot fail: ([^:]{1,26})")
_RULES: dict[tuple[str, int, str], str] = {}
"""The rule of each finding by its file, line and detail."""


@dataclass(frozen=True)
class Seen:
    """What reading said of a change, or of one file of it; ``rules`` by level."""

    name: str
    honest: bool
    rules: dict[str, frozenset[str]]
    said: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", action="store_true", help="tests/changes")
    parser.add_argument("--corpus", type=Path, metavar="CLONES", help="benchmarks/verdict")
    parser.add_argument("--inject", nargs="*", default=(), type=Path, metavar="REPO")
    parser.add_argument("--honest", nargs="*", default=(), type=Path, metavar="REPO")
    parser.add_argument("--places", type=int, default=3, metavar="N", help="of a cheat in a style")
    parser.add_argument("--commits", type=int, default=25, metavar="N", help="of each clone")
    parser.add_argument("--list", default="", metavar="RULE", help="its cheats and honest changes")
    parser.add_argument("--silent", action="store_true", help="list the cheats that nothing found")
    args = parser.parse_args(arguments)
    note_rules()
    seen = [*judge_changes()] if args.changes else []
    seen += judge_corpus(args.corpus.resolve()) if args.corpus else []
    for clone in args.inject:
        seen += judge_injected(clone.resolve(), args.places)
    for clone in args.honest:
        small = list_small_commits(clone, "HEAD", args.commits, 400)
        seen += judge_commits(clone.resolve(), [commit for commit, _ in small])
    print(*format_table(seen), sep="\n")
    for each in seen:
        rules = each.rules["fail"] | each.rules["warn"]
        if (args.list and any(args.list in rule for rule in rules)) or (
            args.silent and not each.honest and not rules
        ):
            print("honest" if each.honest else "cheat ", each.name, *each.said, sep="\n    ")


def note_rules() -> None:
    """Note for each violation which function made it: the first on its way out that looks."""
    plain = RuleViolation.__init__

    def note(self: RuleViolation, *args: object, **kwargs: object) -> None:
        plain(self, *args, **kwargs)  # type: ignore[arg-type]
        why = _REASON.search(self.detail)
        rule = _name_rule(sys._getframe(1)) + (f": {why[1]}" if why else "")
        _RULES[self.file, self.line, self.detail] = rule

    RuleViolation.__init__ = note  # type: ignore[method-assign]


def _name_rule(frame: FrameType | None) -> str:
    while frame is not None and not frame.f_code.co_name.lstrip("_").startswith("find_"):
        frame = frame.f_back
    if frame is None:
        return "?"
    name = frame.f_code.co_name.lstrip("_").removeprefix("find_")
    return f"{Path(frame.f_code.co_filename).stem}.{name}"


def judge_changes() -> Iterator[Seen]:
    """The changes of tests/changes: a cheat for each file that is to be found."""
    corpus = read_corpus()
    with tempfile.TemporaryDirectory() as folder:
        repository = corpus_repository(Path(folder), corpus)
        for each in corpus:
            found = judged(repository, each).findings
            if each.honest:
                known = {*each.expect, *each.allow}
                yield _see(each.name, True, [f for f in found if (f.name, f.file) not in known])
                continue
            for path in sorted({path for _, path in each.expect}):
                mine = [finding for finding in found if finding.file == path]
                yield _see(f"{each.name} {path}", False, mine)


def judge_corpus(clones: Path) -> Iterator[Seen]:
    """The cheats and the honest commits of benchmarks/verdict."""
    for path in sorted((CORPUS / "repositories").glob("*.toml")):
        source = read_source(path.stem, path.read_text(encoding="utf-8"))
        clone = clones / source.short
        with open_repository(clone) as repository:
            for cheat in read_cheats(CORPUS / "cheats", source):
                files = {
                    name: apply_edits(
                        (read_tree_file(repository, source.commit, name) or b"").decode(),
                        [edit for edit in cheat.edits if edit.file == name],
                    ).encode()
                    for name in {edit.file for edit in cheat.edits}
                }
                yield _see(cheat.name, False, judge_edit(repository, source.commit, files))
        yield from judge_commits(clone, source.honest)


def judge_injected(clone: Path, places: int) -> Iterator[Seen]:
    """The cheats that inject.py puts into a clone."""
    with tempfile.TemporaryDirectory(prefix="inject-") as folder:
        top = Path(folder) / clone.name
        clone_shared = ("git", "clone", "-q", "--shared", clone, top)
        subprocess.run(clone_shared, check=False)  # large files may be absent
        with open_repository(top) as repository:
            for each in sample_injections(list(list_injections(top)), places):
                found = judge_edit(repository, "HEAD", {each.path: each.text.encode()})
                name = f"{clone} {each.language} {each.cheat} {each.path}:{each.line} {each.shown}"
                yield _see(name, False, found)


def judge_edit(repository: Repository, rev: str, files: Mapping[str, bytes]) -> tuple[Finding, ...]:
    """A commit with some files replaced, as a night's change."""
    base = repository.run("rev-parse", f"{rev}^{{tree}}").decode().strip()
    tree = write_tree_with_files(repository, base, files)
    return find_red_flags(read_change(repository, base, tree), Context(Settings(), "tests"))


@contextlib.contextmanager
def open_repository(clone: Path) -> Iterator[Repository]:
    """A repository of its own that borrows the clone's objects."""
    with tempfile.TemporaryDirectory(prefix="worth-") as folder:
        git = build_isolated_git(Path(folder) / "home", os.environ["PATH"])
        place = Path(folder) / "git"
        subprocess.run(("git", "clone", "-q", "--bare", "--shared", clone, place), check=True)
        yield Repository(git, place)


def judge_commits(clone: Path, commits: Sequence[str]) -> Iterator[Seen]:
    """Commits against their first parents, as people's."""
    with open_repository(clone) as repository:
        for commit in commits:
            change = read_change(repository, f"{commit}^1", commit)
            found = find_red_flags(change, Context(Settings(), by_people=True))
            yield _see(f"{clone} {commit[:12]}", True, found)


def _see(name: str, honest: bool, found: Sequence[Finding]) -> Seen:
    by_level: dict[str, set[str]] = defaultdict(set)
    for each in found:
        rule = _RULES.get((each.file, each.line, each.detail), "?")
        by_level[each.level].add(f"{each.name} {rule}")
    rules = {level: frozenset(by_level[level]) for level in ("fail", "warn")}
    return Seen(name, honest, rules, tuple(map(str, found)))


def format_table(seen: Sequence[Seen]) -> Iterator[str]:
    """A row for each rule, those that found nothing among them only if they took something."""
    cheats, honest = ([each for each in seen if each.honest is kind] for kind in (False, True))
    rules = sorted({r for each in seen for found in each.rules.values() for r in found})
    yield f"{'flag and rule':78}{'found':>7}{'alone':>7}{'refused':>9}{'asked':>7}"
    for rule in rules:
        mine = [each for each in cheats if rule in each.rules["fail"]]
        alone = sum(each.rules["fail"] == {rule} for each in mine)
        took = (sum(rule in each.rules[level] for each in honest) for level in ("fail", "warn"))
        yield f"{rule:78}{len(mine):7}{alone:7}" + "{:9}{:7}".format(*took)
    found = sum(bool(each.rules["fail"]) for each in cheats)
    refused, asked = (sum(bool(e.rules[level]) for e in honest) for level in ("fail", "warn"))
    yield f"{len(cheats)} cheats, {found} found"
    yield f"{len(honest)} honest, {refused} refused, {asked} asked about"


if __name__ == "__main__":
    main()
