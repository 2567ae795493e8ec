"""A small project in each language whose toolchain may be here, with tests that notice everything.

Each has the same functions: a decision, a result, numbers, texts, and statements that count.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.faults import Fault
from gitlab_nightshift.proof.syntax.file_side import Side
from tests.support.programs import find_lack
from tests.support.scripts import read_files

VARIABLE = "NS_c0ffee"
ASSERTED = "asserted"


@dataclass(frozen=True)
class Project:
    """``product`` is the file with the code, ``build`` runs once and ``test`` for each fault."""

    product: str
    files: Mapping[str, str]
    build: tuple[str, ...]
    test: tuple[str, ...]

    def list_faults(self) -> list[Fault]:
        side = Side(self.product, self.read(self.product))
        return list_faults(side, side.functions)

    def read(self, path: str) -> bytes | None:
        return self.files[path].encode() if path in self.files else None

    def write(self, folder: Path, files: Mapping[str, bytes]) -> None:
        every = {path: text.encode() for path, text in self.files.items()} | dict(files)
        for path, data in every.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)

    def run_build(self, folder: Path) -> str:
        """Build, and give what the compiler said; "" where it said nothing or there is none."""
        return _run(self.build, folder, {})[1] if self.build else ""

    def run_tests(self, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """The exit status and the output."""
        return _run(self.test, folder, environment)

    @property
    def is_here(self) -> bool:
        """True where the toolchain is installed."""
        return not find_lack((*self.build, *self.test)[0])


def _run(argv: tuple[str, ...], folder: Path, more: Mapping[str, str]) -> tuple[int, str]:
    """A command that ends within minutes on a busy machine."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout


def _read_project(path: Path) -> Project:
    """``build:`` and ``test:`` are commands, the first file is the product."""
    head, files = read_files(path)
    commands = dict(line.split(": ", 1) for line in head.splitlines())
    build, test = (tuple(shlex.split(commands.get(name, ""))) for name in ("build", "test"))
    return Project(next(iter(files)), files, build, test)


FOLDER = Path(__file__).parent / "samples"
SAMPLES = {path.stem: _read_project(path) for path in sorted(FOLDER.glob("*.files"))}
PROJECTS = {language: project for language, project in SAMPLES.items() if project.test}
"""Those of the samples that are built and run."""
