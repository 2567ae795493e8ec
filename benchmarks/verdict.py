"""What the verdict says of the corpus: ``python benchmarks/verdict.py CLONES [--only PREFIX]``.

CLONES is as in ``verdict_corpus.py``. Each cheat of ``verdict/cheats`` and each honest commit is
judged as a night judges an agent's change, without a sandbox: the commands on the base and on the
change, what reading says, and what running shows. One line each: the heaviest level, seconds of CPU
(of children; in brackets that of the commands on the change alone), flags. At the end the cheats by
kind, and how many honest commits were refused or warned of. ``--people`` judges as ``check`` does.
"""

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from verdict_corpus import CORPUS, Cheat, Source, apply_edits, read_cheats, read_source

from gitlab_nightshift.proof.evidence.evidence_records import EvidenceSubject
from gitlab_nightshift.proof.proof_commands import Runner, run_and_collect
from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reports.report_request import build_text_reader
from gitlab_nightshift.proof.reviewed_change import Context, read_change
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.proof.running.gathering import gather_evidence
from gitlab_nightshift.proof.running.trial import TrialCheckout
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from gitlab_nightshift.repository.tree_objects import write_tree_with_files
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.raw_logs import build_logs

_LINKED = (".venv", "node_modules")
LIMIT_S = 900.0
"""For the proof of one change."""


@dataclass(frozen=True)
class Judged:
    """What was said of one change. ``level`` is fail, warn or silent; ``cpu`` and ``own_cpu`` are
    seconds of the proof after the change is known, and of its commands alone."""

    name: str
    kind: str
    level: str
    cpu: float
    own_cpu: float
    said: tuple[str, ...]

    def __str__(self) -> str:
        flags = " | ".join(self.said)
        return f"{self.level:6} {self.cpu:6.1f} s ({self.own_cpu:5.1f}) {self.name}: {flags}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all and print; the exit status is 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", type=Path, metavar="CLONES")
    parser.add_argument(
        "--only", default="", metavar="PREFIX", help="of repositories' or cheats' names"
    )
    parser.add_argument("--cheats", action="store_true", help="no honest commits")
    parser.add_argument("--honest", action="store_true", help="no cheats")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="honest commit only")
    parser.add_argument("--people", action="store_true", help="as people's changes")
    parser.add_argument("--reading", action="store_true", help="run nothing")
    args = parser.parse_args(arguments)
    commands = tomllib.loads((args.clones / "commands.toml").read_text())
    seen: list[Judged] = []
    for path in sorted((CORPUS / "repositories").glob("*.toml")):
        source = read_source(path.stem, path.read_text(encoding="utf-8"))
        told = () if args.reading else tuple(commands[source.short])
        clone = args.clones.resolve() / source.short
        cheats = [] if args.honest else read_cheats(CORPUS / "cheats", source)
        for cheat in cheats:
            if cheat.name.startswith(args.only):
                seen.append(judge_cheat(clone, cheat, source.commit, told, args.people))
                print(seen[-1], flush=True)
        for commit in () if args.cheats else source.honest[:: args.every]:
            if f"{source.short} {commit}".startswith(args.only):
                seen.append(judge_commit(clone, source, commit, told, args.people))
                print(seen[-1], flush=True)
    print_summary(seen)
    return 0


def judge_cheat(
    clone: Path, cheat: Cheat, commit: str, commands: tuple[str, ...], people: bool
) -> Judged:
    """A cheat's edits (with its bug, where it is one of product code) on the corpus' base."""
    with open_place(clone, commit) as (checkout, runner):
        files: dict[str, bytes | None] = {}
        for name in {edit.file for edit in cheat.edits}:
            path = checkout.path / name
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            edits = [edit for edit in cheat.edits if edit.file == name]
            files[name] = apply_edits(text, edits).encode()
        tree = write_tree_with_files(checkout.repository, checkout.base_sha, files)
        return judge_tree(checkout, runner, tree, commands, cheat.name, cheat.kind, people)


def judge_commit(
    clone: Path, source: Source, commit: str, commands: tuple[str, ...], people: bool
) -> Judged:
    """A commit against its first parent."""
    with open_place(clone, f"{commit}^1", commit) as (checkout, runner):
        name = f"{source.short} {commit[:12]}"
        return judge_tree(checkout, runner, f"{commit}^{{tree}}", commands, name, "honest", people)


def judge_tree(
    checkout: Checkout,
    runner: Runner,
    named: str,
    commands: tuple[str, ...],
    name: str,
    kind: str,
    people: bool,
) -> Judged:
    """All that a night does with a change once the agent is done."""
    repository = checkout.repository
    tree = repository.run("rev-parse", named).decode().strip()
    base = repository.run("rev-parse", f"{checkout.base_sha}^{{tree}}").decode().strip()
    context = Context(Settings(), "tests", by_people=people)
    subject = EvidenceSubject(base, tree, read_change(repository, base, tree), context)
    findings = find_red_flags(subject.change, context)
    read = build_text_reader(repository, checkout.base_sha)
    before = run_and_collect(runner, commands, "base", checkout.restore, read)
    start = read_cpu()
    checkout.apply_tree(tree)
    runs = run_and_collect(runner, commands, "change", lambda: checkout.apply_tree(tree), read)
    own = read_cpu() - start
    said = [f"{run.result.command}: {run.result.exit_status}" for run in runs if not run.result.ok]
    if commands and not said:
        trial_checkout = TrialCheckout(
            checkout, runner, commands, "evidence", time.monotonic() + LIMIT_S
        )
        collections = [run.collection for run in before]
        evidence = gather_evidence(
            subject, trial_checkout, collections, runs, BaseCanaries(), findings
        )
        findings = evidence.findings
        said += [f"{check.title}: {check.detail}" for check in evidence.checks]
    levels = {finding.level for finding in findings} | ({"fail"} if not_ok(runs) else set())
    level = next((each for each in ("fail", "warn") if each in levels), "silent")
    flags = [f"{finding.level}:{finding.name} {finding.detail[:160]}" for finding in findings]
    return Judged(name, kind, level, read_cpu() - start, own, (*flags, *said))


def not_ok(runs: Sequence[object]) -> bool:
    """Whether a command failed."""
    return any(not run.result.ok for run in runs)  # type: ignore[attr-defined]


def read_cpu() -> float:
    """Seconds of CPU of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def open_place(clone: Path, commit: str, more: str = "") -> Iterator[tuple[Checkout, Runner]]:
    """A checkout of a commit, with what the clone has installed linked in."""
    with tempfile.TemporaryDirectory(prefix="verdict-", ignore_cleanup_errors=True) as folder:
        top = Path(folder) / "builds" / "project"
        subprocess.run(("git", "clone", "-q", "--shared", "-n", clone, top), check=True)
        wanted = [
            subprocess.run(
                ("git", "-C", clone, "rev-parse", rev), check=True, capture_output=True, text=True
            ).stdout.strip()
            for rev in (commit, more)
            if rev
        ]
        git = ("git", "-C", top, "-c", "advice.detachedHead=false")
        subprocess.run((*git, "checkout", "-q", wanted[0]), check=True)
        for name in _LINKED:
            if (clone / name).is_dir() and not (top / name).exists():
                (top / name).symlink_to(clone / name)
                (top / ".git/info/exclude").open("a").write(f"/{name}\n")
        private, scratch = (Path(folder) / name for name in ("private", "scratch"))
        for each in (private, scratch):
            each.mkdir(mode=0o700)
        with open_checkout(
            top,
            output_dir="nightshift",
            private=private,
            search_path=os.environ["PATH"],
            run_id="1",
            warn=lambda text: print(text, file=sys.stderr),
        ) as checkout:
            places = (top / ".venv/bin", top / "node_modules/.bin", os.environ["PATH"])
            env = {
                "PATH": os.pathsep.join(map(str, places)),
                "HOME": os.environ["HOME"],
                "TMPDIR": str(scratch / "tmp"),
                "LANG": "C.UTF-8",
                "VIRTUAL_ENV": str(top / ".venv"),
            }
            logs = build_logs(private, Redactor(()))
            runner = Runner(top, env, scratch, logs, ProcessLimits, lambda _event: None)
            runner.renew()
            yield checkout, runner


def print_summary(seen: Sequence[Judged]) -> None:
    """Figures of cheats by kind, and of honest commits."""
    cheats = [each for each in seen if each.kind != "honest"]
    for kind in sorted({each.kind for each in cheats}):
        levels = Counter(each.level for each in cheats if each.kind == kind)
        print(f"  {kind}: {', '.join(f'{n} {level}' for level, n in sorted(levels.items()))}")
    for name, group in (("cheats", cheats), ("honest", [e for e in seen if e.kind == "honest"])):
        if group:
            levels = Counter(each.level for each in group)
            rest = ", ".join(f"{levels[level]} {level}" for level in ("fail", "warn", "silent"))
            ratio = sorted(each.cpu / max(each.own_cpu, 0.1) for each in group)[len(group) // 2]
            print(f"{name}: {len(group)}: {rest}; median CPU {ratio:.1f} times the command's")


if __name__ == "__main__":
    sys.exit(main())
