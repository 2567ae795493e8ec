"""A process that does what a recorded bead did: same output, same hand-off, same files.

A script with three arguments: the bead's folder, the checkout, the hand-off file. Standard library
only.
"""

import json
import shutil
import sys
import time
from pathlib import Path

RECORDED_CHECKOUT = Path("/recorded/checkout")
"""Replaces the checkout's own path in recorded output."""


def encode_json_path(path: Path) -> bytes:
    """A path as it is written in a JSON string."""
    return json.dumps(str(path), ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")


def play(folder: Path, checkout: Path, handoff: Path) -> int:
    """Play one bead; returns the recorded exit status, or 3 if the recording has no such bead."""
    # Read to its end: whoever writes a prompt to a closed pipe gets EPIPE (pipe(7)).
    sys.stdin.buffer.read()
    if not folder.is_dir():
        sys.stderr.write(f"the recording has no bead {folder.name}\n")
        return 3
    bead = json.loads((folder / "bead.json").read_bytes())
    _print_output(folder / "stdout.jsonl", checkout, float(bead.get("pace_s", 0.0)))
    _change_files(folder / "files", checkout, bead.get("deleted", []))
    if (folder / "handoff.json").exists():
        shutil.copyfile(folder / "handoff.json", handoff)
    return int(bead.get("exit_status", 0))


def _print_output(stdout: Path, checkout: Path, pace_s: float) -> None:
    lines = stdout.read_bytes().splitlines(keepends=True) if stdout.exists() else []
    for line in lines:
        sys.stdout.buffer.write(
            line.replace(encode_json_path(RECORDED_CHECKOUT), encode_json_path(checkout))
        )
        sys.stdout.buffer.flush()
        time.sleep(pace_s)


def _change_files(files: Path, checkout: Path, deleted: list[str]) -> None:
    for name in deleted:
        (checkout / name).unlink(missing_ok=True)
    for file in sorted(files.rglob("*")) if files.is_dir() else []:
        if "__pycache__" in file.parts:  # pip adds it to a recording that is part of a package
            continue
        target = checkout / file.relative_to(files)
        if file.is_dir() and not file.is_symlink():
            target.mkdir(exist_ok=True)
            continue
        # A link to a folder is removed as a link: rmtree would refuse it.
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
        shutil.copy2(file, target, follow_symlinks=False)


if __name__ == "__main__":
    sys.exit(play(*(Path(argument) for argument in sys.argv[1:4])))
