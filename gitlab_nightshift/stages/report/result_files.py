"""Where a run's results are: in its private folder while agents run, then in the checkout's output
folder, all or none."""

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
IGNORES = ".gitignore"
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def set_aside(private: Path, output: Path) -> None:
    """Keep the results of earlier stages, and remove them from the output folder, as far as that is
    possible: the runner may have unpacked them as another user. Raises OSError if they cannot be
    read.
    """
    shutil.copytree(output, private / EARLIER, symlinks=True)
    aside = _build_part_path(private, output)
    with contextlib.suppress(OSError):
        output.rename(aside)  # in one step: a kill leaves the folder whole, or none
    for path in (aside, output):
        _remove(path)


def place_results(private: Path, output: Path) -> None:
    """Put the results, with those of earlier stages, into the output folder, whatever is there.

    Raises OSError if nothing may be written there, ``E_CONFIG`` if the disk is too full for them
    even without raw logs.
    """
    _remove(output)
    if os.path.lexists(output):  # to rename it, write access to the folder above is enough
        output.rename(output.with_name(f"{output.name}.earlier-{os.urandom(4).hex()}"))
    results, earlier, part = private / RESULTS, private / EARLIER, _build_part_path(private, output)
    if earlier.exists():
        if (results / "bundle").exists():  # it is about another bundle
            (earlier / NOTARY).unlink(missing_ok=True)
        shutil.copytree(results, earlier, dirs_exist_ok=True)
    whole = earlier if earlier.exists() else results
    if not any(whole.iterdir()):
        return
    ignore_itself(whole)
    write_log_index(whole / "logs")
    try:
        _move(whole, output, part)
    except OSError:  # usually because the output folder is on another disk, which is full
        _remove(part)
        remove_tree(whole / "logs")  # the largest part, which people need least
        try:
            _move(whole, output, part)
        except OSError as error:
            _remove(part)
            if error.errno in _FORBIDDEN:
                raise
            raise build_no_space_error(output.parent) from None


def ignore_itself(folder: Path) -> None:
    """Let git ignore a folder of results, unless it has a .gitignore: it is not a change of the
    project, and ``git add .`` skips it."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):  # a full disk is no reason to lose results
        descriptor = os.open(folder / IGNORES, flags, 0o666)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if not os.fstat(descriptor).st_size:  # a kill may have left it empty
                file.write(b"*\n")


def _build_part_path(private: Path, output: Path) -> Path:
    """Where a copy of the results is made, beside the output folder, until it is complete."""
    return output.with_name(f"{output.name}.part-{private.name}")


def remove_part(private: Path, output: Path) -> None:
    """Remove a copy of the results that a killed run left unfinished."""
    _remove(_build_part_path(private, output))


def _move(whole: Path, output: Path, part: Path) -> None:
    try:
        whole.rename(output)
    except OSError as error:
        if error.errno != errno.EXDEV:  # another file system (rename(2))
            raise
        shutil.copytree(whole, part, symlinks=True)
        part.rename(output)


def move_upkeep(results: Path) -> None:
    """Move the results of the upkeep into a folder of their own, before new work."""
    place = results / UPKEEP
    place.mkdir(exist_ok=True)
    for name in ("bundle", NOTARY, "published.json"):
        if (results / name).exists():
            (results / name).rename(place / name)


def _remove(path: Path) -> None:
    """Remove a file or folder, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)


# --- the index of raw logs ----------------------------------------------------------------------


INDEX = "index.txt"
_HEAD = """\
What agents and commands printed in this night: file, bytes, whose. result.json says how each of
them ended. A file that ends with .gz is compressed: zcat shows it.
"""
_KINDS = (
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
    """The index of logs, given with their sizes in bytes; empty ones come last."""
    width = max(map(len, sizes))
    filled = {name: size for name, size in sizes.items() if size}
    rows = [f"{n:<{width}}  {size:>9}  {_describe(n)}".rstrip() for n, size in filled.items()]
    empty = [name for name in sizes if name not in filled]
    last = [f"\nNothing was printed to {', '.join(empty)}"] if empty else []
    return "\n".join([_HEAD, *rows, *last]) + "\n"


def _describe(name: str) -> str:
    """What a log is, by its name; "" for an unknown one."""
    stem, _, kind = name.removesuffix(".gz").partition(".")
    where = {"out": "stdout of ", "err": "stderr of "}.get(kind, "")
    for pattern, text in _KINDS:
        if found := re.fullmatch(pattern, stem):
            return where + text.format(*found.groups())
    return ""
