"""Cases that begin with a shell's script, in a file: ``# NAME``, ``< SCRIPT`` (what was before),
``$ SCRIPT``, ``? KEY=VALUE …`` (what is asked) and ``> …`` (what is expected), of each but the name
any number of lines."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PERSON = {
    f"GIT_{who}_{what}": text
    for who in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))
}


@dataclass
class ScriptCase:
    """One case of a file."""

    name: str
    before: str = ""
    script: str = ""
    asked: dict[str, str] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return self.name

    def change(
        self, files: Mapping[str, str], commands: str = "", **env: str
    ) -> tuple[dict[str, str], dict[str, str | None]]:
        """What is there before, and what the script changes of it (None: a file that is gone);
        ``commands`` are functions that both scripts may call."""
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder, "top")
            for path, text in files.items():
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text(text)
            top.mkdir(exist_ok=True)
            before = _run_and_read(top, f"{commands}\n{self.before}", env)
            after = _run_and_read(top, f"{commands}\n{self.script}", env)
        paths = before.keys() | after.keys()
        return before, {p: after.get(p) for p in sorted(paths) if before.get(p) != after.get(p)}


def read_cases(path: Path) -> list[ScriptCase]:
    """All cases of a file."""
    cases: list[ScriptCase] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        sign, _, text = line.partition(" ")
        if sign == "#":
            cases.append(ScriptCase(text))
        elif sign == "<":
            cases[-1].before += f"{text}\n"
        elif sign == "$":
            cases[-1].script += f"{text}\n"
        elif sign == "?":
            pairs = (word.partition("=") for word in shlex.split(text))
            cases[-1].asked.update((key, value) for key, _, value in pairs)
        else:
            assert sign == ">", line
            cases[-1].expected.append(text)
    return cases


_NO_NEWLINE = "\n\\ No newline at end of file\n"


def read_files(path: Path) -> tuple[str, dict[str, str]]:
    """What a file says first, and the files in it: ``>>> PATH`` begins each."""
    head, *parts = re.split(r"(?m)^>>> ", path.read_text(encoding="utf-8"))
    sections = [part.removesuffix(_NO_NEWLINE).partition("\n") for part in parts]
    return head, {name: content for name, _, content in sections}


def run_script(folder: Path, script: str, env: Mapping[str, str] | None = None) -> None:
    """Run a script in a folder, as a person; fails the test where one of its commands fails."""
    done = subprocess.run(
        ["sh", "-ec", script],
        check=False,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **_PERSON, **(env or {})},
        capture_output=True,
    )
    assert done.returncode == 0, f"{script}: {done.stderr!r}"


def _run_and_read(folder: Path, script: str, env: Mapping[str, str]) -> dict[str, str]:
    run_script(folder, script, env)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}
