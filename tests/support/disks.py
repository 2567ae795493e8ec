"""Small disks for tests: what is filled there fills nothing else."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str = "1m", files: int = 0) -> Iterator[Path]:
    """``folder`` as a disk of its own of that size, and for so many files (0: any number).

    The test is skipped where none can be mounted.
    """
    folder.mkdir(exist_ok=True)
    options = f"mode=755,size={size}" + (f",nr_inodes={files}" if files else "")
    argv = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def fill(folder: Path, name: str = "fill") -> Path:
    """Add to a file until the disk is full."""
    path = folder / name
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return path
