"""Keeps a run's results in its private folder while agents run, then moves them to the checkout's
output folder in one step."""

import contextlib
import errno
import os
import re
import shutil
from pathlib import Path

from gitlab_nightshift.records.notary_records import NOTARY
from gitlab_nightshift.records.storage import UPKEEP
from gitlab_nightshift.repository.disk_space import build_no_space_error
from gitlab_nightshift.system.openat import remove_tree

RESULTS, EARLIER, OUTPUT = "results", "earlier", "output"
"""In the private folder: the results, those of earlier stages, and the output folder's path."""
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS}


def set_aside(private: Path, output: Path) -> None:
    """Copy the results of earlier stages to the private folder, and remove them from the output
    folder, as far as that is possible: the runner may have unpacked them as another user. Raises
    OSError if they cannot be read.
    """
    shutil.copytree(output, private / EARLIER, symlinks=True)
    aside = _build_part_path(private, output)
    with contextlib.suppress(OSError):
        output.rename(aside)  # in one step: a kill leaves either the complete folder or none
    for path in (aside, output):
        _remove(path)


def place_results(private: Path, output: Path) -> None:
    """Replace the output folder by the results, with those of earlier stages.

    Raises OSError if nothing may be written there, ``E_CONFIG`` if the disk is too full for them
    even without raw logs.
    """
    _remove(output)
    if os.path.lexists(output):  # to rename it, write access to its parent is enough
        output.rename(output.with_name(f"{output.name}.earlier-{os.urandom(4).hex()}"))
    results, earlier, part = private / RESULTS, private / EARLIER, _build_part_path(private, output)
    if earlier.exists():
        if (results / "bundle").exists():  # the earlier notary's record is about another bundle
            (earlier / NOTARY).unlink(missing_ok=True)
        shutil.copytree(results, earlier, dirs_exist_ok=True)
        results = earlier
    if not any(results.iterdir()):
        return
    ignore_itself(results)
    write_log_index(results / "logs")
    try:
        _move(results, output, part)
    except OSError:  # usually because the output folder is on another disk, which is full
        _remove(part)
        remove_tree(results / "logs")  # the largest part, which people need least
        try:
            _move(results, output, part)
        except OSError as error:
            _remove(part)
            if error.errno in _NOT_WRITABLE:
                raise
            raise build_no_space_error(output.parent) from None


def ignore_itself(folder: Path) -> None:
    """Make git ignore a folder of results, so that ``git add .`` skips it; a non-empty .gitignore
    stays."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):  # a full disk is no reason to lose results
        descriptor = os.open(folder / ".gitignore", flags, 0o666)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if not os.fstat(descriptor).st_size:  # a kill may have left it empty
                file.write(b"*\n")


def _build_part_path(private: Path, output: Path) -> Path:
    """The path beside the output folder for an incomplete copy of the results."""
    return output.with_name(f"{output.name}.part-{private.name}")


def remove_part(private: Path, output: Path) -> None:
    """Remove the incomplete copy of a killed run's results."""
    _remove(_build_part_path(private, output))


def _move(results: Path, output: Path, part: Path) -> None:
    try:
        results.rename(output)
    except OSError as error:
        if error.errno != errno.EXDEV:  # another file system (rename(2))
            raise
        shutil.copytree(results, part, symlinks=True)
        part.rename(output)


def move_upkeep(results: Path) -> None:
    """Move the results of the upkeep into a folder of their own, before new work."""
    folder = results / UPKEEP
    folder.mkdir(exist_ok=True)
    for name in ("bundle", NOTARY, "published.json"):
        if (results / name).exists():
            (results / name).rename(folder / name)


def _remove(path: Path) -> None:
    """Remove a file or folder, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)


# --- the index of raw logs ----------------------------------------------------------------------


INDEX = "index.txt"
_INDEX_HEAD = """\
What agents and commands printed in this night: file, bytes, whose. result.json says how each of
them ended. A file that ends with .gz is compressed: zcat shows it.
"""
_LOG_KINDS = (
    (r"\d+-([a-z]+)-(.+)-(\d+)", "the agent of bead {0}, {1}, attempt {2}"),
    (r"baseline-(\d+)", "command {0} on the untouched checkout"),
    (r"checks-(.+)-(\d+)-(\d+)", "command {2} on the change: {0}, attempt {1}"),
    (r"evidence-(.+)-(\d+)-canary-(\d+)", "faults planted at once, run {2}: {0}, attempt {1}"),
    (r"evidence-(.+)-(\d+)-new-(\d+)", "the new tests against faults, run {2}: {0}, attempt {1}"),
    (r"evidence-(.+)-(\d+)-(.+)", "what running shows, {2}: {0}, attempt {1}"),
    (r"notary-(\d+)", "command {0} once more, on the change alone"),
    (r"agent-version", "the version of the agent's CLI"),
    (r"traceback.*", "where a defect of nightshift was noticed"),
)


def write_log_index(folder: Path) -> None:
    """Write ``index.txt`` if there are logs. A full disk is no reason to lose them."""
    with contextlib.suppress(OSError):
        sizes = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.name != INDEX}
        if sizes:
            (folder / INDEX).write_text(format_log_index(sizes), encoding="utf-8")


def format_log_index(sizes: dict[str, int]) -> str:
    """The index of logs (name → bytes); empty ones come last."""
    width = max(map(len, sizes))
    lines = [
        f"{name:<{width}}  {size:>9}  {_describe_log(name)}".rstrip()
        for name, size in sizes.items()
        if size
    ]
    if empty := [name for name, size in sizes.items() if not size]:
        lines.append(f"\nNothing was printed to {', '.join(empty)}")
    return "\n".join([_INDEX_HEAD, *lines]) + "\n"


def _describe_log(name: str) -> str:
    """What a log is, by its name; "" for an unknown one."""
    stem, _, suffix = name.removesuffix(".gz").partition(".")
    stream = {"out": "stdout of ", "err": "stderr of "}.get(suffix, "")
    for pattern, text in _LOG_KINDS:
        if match := re.fullmatch(pattern, stem):
            return stream + text.format(*match.groups())
    return ""
