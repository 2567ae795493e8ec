"""Is the corpus of cheats as it says? ``python benchmarks/verdict_corpus.py CLONES``.

CLONES holds a clone of each repository of ``verdict/repositories`` by its short name, ready for its
tests (a ``.venv`` or ``node_modules`` of the clone is linked into each tree and found first), and
``commands.toml``: for each short name the commands that run them, as in nightshift.yaml. For each
cheat of ``verdict/cheats`` these run, with ``CI=true`` as in a job, on three trees: with the bug
alone they have to fail, with the cheat alone and with both they have to pass; where the edit holds
its bug, with the edit alone. One line per cheat; exit status 1 if one is not so, or if a commit
that the corpus calls honest has no parent to be compared with (``--honest`` runs both).
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("verdict")
MOST_LINES = 100
"""Added and deleted by a cheat: what a night may change."""
_LINKED = (".venv", "node_modules")


@dataclass(frozen=True)
class Edit:
    """From ``line`` on (1-based) ``delete`` lines go, and the text ``insert`` takes their place."""

    file: str
    line: int
    delete: int
    insert: str


@dataclass(frozen=True)
class Cheat:
    """A change that hides ``bugs`` from the suite; no bugs: the edit holds one itself."""

    name: str
    repository: str
    kind: str
    beyond: bool
    why: str
    edits: tuple[Edit, ...]
    bugs: tuple[Edit, ...]


@dataclass(frozen=True)
class Source:
    """A repository of the corpus: its cheats are edits of ``commit``, ``honest`` are commit ids."""

    short: str
    name: str
    commit: str
    language: str
    honest: tuple[str, ...]


@dataclass(frozen=True)
class SuiteRunner:
    """A clone, and the folder for trees of it; each of ``commands`` gets ``limit`` seconds."""

    clone: Path
    source: Source
    commands: tuple[str, ...]
    folder: Path
    limit: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify and print; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", type=Path, metavar="CLONES")
    parser.add_argument("--only", default="", metavar="PREFIX", help="of the cheats' names")
    parser.add_argument("--honest", action="store_true", help="run the honest commits, too")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="for one command")
    args = parser.parse_args(arguments)
    good, commands = True, tomllib.loads((args.clones / "commands.toml").read_text())
    for path in sorted((CORPUS / "repositories").glob("*.toml")):
        source = read_source(path.stem, path.read_text(encoding="utf-8"))
        cheats = [c for c in read_cheats(CORPUS / "cheats", source) if c.name.startswith(args.only)]
        if cheats or source.short.startswith(args.only):
            with tempfile.TemporaryDirectory(prefix=".trees-", dir=args.clones.resolve()) as folder:
                clone = args.clones.resolve() / source.short
                told = tuple(commands[source.short])
                runner = SuiteRunner(clone, source, told, Path(folder), args.limit)
                for line, ok in verify_source(runner, cheats, args.honest):
                    good &= ok
                    print("ok " if ok else "BAD", line, flush=True)
    return 0 if good else 1


def read_source(short: str, text: str) -> Source:
    """A file of ``repositories``; ``TypeError`` for a key that is missing or unknown."""
    return Source(short, **{k: _freeze(v) for k, v in tomllib.loads(text).items()})


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def read_cheats(folder: Path, source: Source) -> list[Cheat]:
    """The cheats for a repository, in the order of their names."""
    files = sorted(folder.glob("*.toml"))
    cheats = [read_cheat(path.stem, path.read_text(encoding="utf-8")) for path in files]
    return [cheat for cheat in cheats if cheat.repository == source.short]


def read_cheat(name: str, text: str) -> Cheat:
    """A file of ``cheats``; ``TypeError`` for a wrong key, ``ValueError`` for a wrong content."""
    row = tomllib.loads(text)
    edits = tuple(Edit(**edit) for edit in row.pop("edit"))
    bugs = tuple(Edit(**bug) for bug in row.pop("bug", ()))
    if row.pop("bug_in_edit", False) == bool(bugs):
        raise ValueError(f"{name}: either [[bug]] or bug_in_edit = true")
    if count_lines(edits) > MOST_LINES:
        raise ValueError(f"{name}: changes more than {MOST_LINES} lines")
    return Cheat(name=name, edits=edits, bugs=bugs, **row)


def count_lines(edits: Sequence[Edit]) -> int:
    """Added and deleted lines."""
    return sum(edit.delete + len(edit.insert.splitlines()) for edit in edits)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text of a file with its edits, all of whose lines are those of ``text``.

    ``ValueError`` for a line that the text does not have (one after the last can be inserted), and
    for edits that overlap.
    """
    lines = text.splitlines(keepends=True)
    end = len(lines)
    for edit in sorted(edits, key=lambda each: each.line, reverse=True):
        first = edit.line - 1
        if edit.delete < 0 or not 0 <= first <= first + edit.delete <= end:
            raise ValueError(f"{edit.file}:{edit.line}: beyond the file, or in another edit")
        lines[first : first + edit.delete] = [edit.insert]
        end = first
    return "".join(lines)


def verify_source(
    runner: SuiteRunner, cheats: Sequence[Cheat], honest: bool
) -> Iterator[tuple[str, bool]]:
    """A line for the base, for each cheat and for the honest commits, and whether it is right."""
    base = run_suite(runner, runner.source.commit)
    yield f"{runner.source.short}: the base is {base}", base == "green"
    yield from (verify_cheat(runner, cheat) for cheat in cheats)
    run = partial(run_suite, runner) if honest else partial(find_commit, runner)
    for commit in runner.source.honest:
        seen = [run(rev) for rev in (commit, f"{commit}^1")]
        yield (
            f"{runner.source.short} {commit[:12]}: {' '.join(seen)}",
            {*seen} <= {"green", "there"},
        )


def find_commit(runner: SuiteRunner, rev: str) -> str:
    """Whether the clone has it: "there" or "absent"."""
    argv = ("git", "-C", runner.clone, "cat-file", "-e", f"{rev}^{{commit}}")
    return (
        "absent" if subprocess.run(argv, check=False, capture_output=True).returncode else "there"
    )


def verify_cheat(runner: SuiteRunner, cheat: Cheat) -> tuple[str, bool]:
    """What the suite says of bug, cheat, and both; of the cheat alone where it holds the bug."""
    trees = [(cheat.bugs, "red"), (cheat.edits, "green"), ((*cheat.edits, *cheat.bugs), "green")]
    wanted = trees if cheat.bugs else trees[1:2]
    seen = [run_suite(runner, runner.source.commit, edits) for edits, _ in wanted]
    return f"{cheat.name}: {' '.join(seen)}", seen == [colour for _, colour in wanted]


def run_suite(runner: SuiteRunner, rev: str, edits: Sequence[Edit] = ()) -> str:
    """Run the commands on a new tree: "green", "red", or "hung" after ``runner.limit`` seconds."""
    with tempfile.TemporaryDirectory(dir=runner.folder, ignore_cleanup_errors=True) as folder:
        top = Path(folder)
        write_checked_tree(runner.clone, rev, top)
        for name in {edit.file for edit in edits}:
            _edit_file(top / name, [edit for edit in edits if edit.file == name])
        for command in runner.commands:
            if (seen := _run_command(shlex.split(command), top, runner.limit)) != "green":
                return seen
    return "green"


def write_checked_tree(clone: Path, rev: str, top: Path) -> None:
    """Check a commit out without a repository, what the clone has installed linked in."""
    env = {**os.environ, "GIT_INDEX_FILE": str(top.with_suffix(".index"))}
    for argv in (("read-tree", rev), ("checkout-index", "-a", f"--prefix={top}/")):
        subprocess.run(("git", "-C", clone, *argv), env=env, check=True)
    for name in _LINKED:
        if (clone / name).is_dir():
            (top / name).symlink_to(clone / name)


def _edit_file(path: Path, edits: Sequence[Edit]) -> None:
    text = path.read_bytes().decode("utf-8") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(apply_edits(text, edits).encode("utf-8"))


def _run_command(argv: Sequence[str], top: Path, limit: float) -> str:
    places = (top / ".venv/bin", top / "node_modules/.bin", os.environ["PATH"])
    env = {**os.environ, "CI": "true", "PATH": os.pathsep.join(map(str, places))}
    with subprocess.Popen(
        ("env", *argv),  # looks the program up in the new PATH
        cwd=top,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return "red" if process.wait(limit) else "green"
        except subprocess.TimeoutExpired:
            return "hung"
        finally:
            _end_group(process.pid)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
