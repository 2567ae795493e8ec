"""What `nightshift check` says of a history: ``python benchmarks/history.py REPO [REPO ...]``.

The last small commits of any clones, one by one against their first parent, merges left out. A
table per flag, then each finding with its commit, to be read: whether it is right no program
knows. Nothing of the repositories is run or written.
"""

import argparse
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.commands.change_check import CheckRequest, check
from gitlab_nightshift.records.verdicts import Finding

_LOOKED_AT = 4
"""Commits that are looked at for one small one: old objects may be absent from a clone."""
# Settings and secrets of the caller's job decide nothing here.
_ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@dataclass(frozen=True)
class JudgedCommit:
    """A commit of a clone with what was found in it."""

    repository: str
    commit: str
    subject: str
    findings: tuple[Finding, ...]

    def list_flags(self, level: str) -> frozenset[str]:
        """The flags that are raised at this level."""
        return frozenset(f.name for f in self.findings if f.level == level)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the commits; print table and findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPO")
    parser.add_argument("--commits", type=int, default=80, metavar="N", help="of each, at most")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="added and deleted")
    parser.add_argument("--level", default="fail", help="of the findings that are listed")
    parser.add_argument("--until", default="HEAD", metavar="REV", help="the newest commit")
    args = parser.parse_args(arguments)
    whole = [
        judge_commit(folder, commit, subject)
        for folder in args.repositories
        for commit, subject in list_small_commits(folder, args.until, args.commits, args.lines)
    ]
    print(*format_table(whole), "", *format_findings(whole, args.level), sep="\n")


def list_small_commits(folder: Path, until: str, count: int, lines: int) -> list[tuple[str, str]]:
    """The last commits with their subjects, each of at most so many changed lines."""
    form = "--format=%x00%H%x09%s"
    which = (until, "--no-merges", "--min-parents=1", f"--max-count={_LOOKED_AT * count}")
    argv = ("git", "-C", folder, "log", *which, "--numstat", form)
    log = subprocess.run(argv, check=True, capture_output=True).stdout.decode("utf-8", "replace")
    small = []
    for entry in log.split("\0")[1:]:
        head, *rows = entry.strip().splitlines()
        commit, _, subject = head.partition("\t")
        if rows and 0 < sum(_count_lines(row) for row in rows if row) <= lines:
            small.append((commit, subject))
    return small[:count]


def _count_lines(row: str) -> int:
    return sum(int(number) for number in row.split("\t")[:2] if number.isdigit())


def judge_commit(folder: Path, commit: str, subject: str = "") -> JudgedCommit:
    """What the flags say of one commit."""
    findings = check(CheckRequest(folder.resolve(), _ENV, commit)).findings
    return JudgedCommit(folder.resolve().name, commit, subject, findings)


def format_table(whole: Sequence[JudgedCommit]) -> Iterator[str]:
    """By repository and by flag: how many commits got a finding, and how many of 100."""
    levels = sorted({f.level for each in whole for f in each.findings} | {"fail", "warn"})
    heads = "".join(f"{level:>10}" for level in levels)
    yield f"{'repository':24}{'commits':>10}{heads}"
    for name in dict.fromkeys(each.repository for each in whole):
        yield _format_row(name, [each for each in whole if each.repository == name], levels)
    yield _format_row("all", whole, levels)
    counts = {level: Counter(n for c in whole for n in c.list_flags(level)) for level in levels}
    yield f"\n{'flag':24}{'':10}{heads}"
    for flag in sorted(set().union(*counts.values())):
        yield f"{flag:24}{'':10}" + "".join(f"{counts[level][flag]:10}" for level in levels)


def _format_row(name: str, commits: Sequence[JudgedCommit], levels: Sequence[str]) -> str:
    found = [sum(bool(each.list_flags(level)) for each in commits) for level in levels]
    rates = ", ".join(f"{100 * n / max(1, len(commits)):.1f}" for n in found)
    return f"{name:24}{len(commits):10}" + "".join(f"{n:10}" for n in found) + f"   % {rates}"


def format_findings(whole: Sequence[JudgedCommit], level: str) -> Iterator[str]:
    """Each finding of a level, by flag, with its commit."""
    for flag in sorted({name for each in whole for name in each.list_flags(level)}):
        yield f"\n== {flag}"
        for each in whole:
            mine = [f for f in each.findings if (f.name, f.level) == (flag, level)]
            if mine:
                yield f"{each.repository} {each.commit[:12]} {each.subject}"
                yield from (f"    {f.file}:{f.line} {f.detail}" for f in mine)


if __name__ == "__main__":
    main()
