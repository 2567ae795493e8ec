"""The bundle's build: it asks the interpreter, and tries what it has built."""

import io
import subprocess
import tarfile
from pathlib import Path

from ci.bundle.build_bundle import copy_interpreter, find_fault, find_packages


def test_the_interpreter_finds_its_library_and_its_packages(tmp_path: Path) -> None:
    """Debian's own has other places than Python's."""
    copy_interpreter(tmp_path)
    (tmp_path / "bin").mkdir()
    python = (tmp_path / "libexec/python3").rename(tmp_path / "bin/python3")
    (find_packages(tmp_path) / "packed.py").write_text("import json\nprint(json.__file__)\n")
    done = subprocess.run(
        [python, "-I", "-m", "packed"], env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path))


def build_archive(folder: Path, text: str) -> Path:
    """A bundle whose program is a shell script."""
    archive = folder / "nightshift-1.0.0-x86_64.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        entry = tarfile.TarInfo("nightshift-1.0.0/bin/nightshift")
        entry.size, entry.mode = len(text), 0o755
        tar.addfile(entry, io.BytesIO(text.encode()))
    return archive


def test_what_does_not_start_or_judge_is_no_bundle(tmp_path: Path) -> None:
    for text, fault in (
        ("git diff --quiet HEAD~1 && exit 5 || exit 0", ""),
        ("echo no module >&2; exit 1", "exit status 1: no module"),
        ('[ "$1" = --version ] || exit 3', "exit status 3: "),
    ):
        archive = build_archive(tmp_path, f"#!/bin/sh\n{text}\n")
        assert find_fault(archive) == fault
