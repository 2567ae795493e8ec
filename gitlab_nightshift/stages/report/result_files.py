"""Where a run's results end up: in its private folder while agents live, then in the checkout's
output folder, whole or not at all."""

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
"""In the private folder: results so far, those of earlier stages, and where they belong."""
IGNORES = ".gitignore"


def set_aside(private: Path, output: Path) -> None:
    """Keep the results of earlier stages, and remove them from the output folder.

    One that the runner has unpacked may be another user's, who alone can remove it. Raises OSError
    where they cannot be read.
    """
    shutil.copytree(output, private / EARLIER, symlinks=True)
    part = _build_part_path(private, output)
    with contextlib.suppress(OSError):
        output.rename(part)  # whole until then, and not there from then on
    for path in (part, output):
        _remove(path)


def place_results(private: Path, output: Path) -> None:
    """Put the results, with those of earlier stages, into the output folder, whatever is there.

    Raises OSError, and ``E_CONFIG`` where the disk there has no space for them, not even without
    raw logs.
    """
    _remove(output)
    if os.path.lexists(output):  # what cannot be removed: moving needs rights to the checkout alone
        output.rename(output.with_name(f"{output.name}.earlier-{os.urandom(4).hex()}"))
    results, earlier, part = private / RESULTS, private / EARLIER, _build_part_path(private, output)
    if earlier.exists():
        if (results / "bundle").exists():  # what was seen of another bundle
            (earlier / NOTARY).unlink(missing_ok=True)
        shutil.copytree(results, earlier, dirs_exist_ok=True)
    whole = earlier if earlier.exists() else results
    if not any(whole.iterdir()):
        return
    ignore_itself(whole)
    write_log_index(whole / "logs")
    try:
        _move(whole, output, part)
    except OSError:  # of another disk, as a rule
        _remove(part)
        remove_tree(whole / "logs")
        try:
            _move(whole, output, part)
        except OSError:
            _remove(part)
            raise build_no_space_error(output.parent) from None


def ignore_itself(folder: Path) -> None:
    """Let git ignore all of a folder of results, where nothing in it says otherwise: it is no
    change of the project, and ``git add .`` leaves it out."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):  # a full disk keeps no results from their place
        descriptor = os.open(folder / IGNORES, flags, 0o666)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if not os.fstat(descriptor).st_size:  # a kill may have left it empty
                file.write(b"*\n")


def _build_part_path(private: Path, output: Path) -> Path:
    """What is copied from another disk has this name until it is whole."""
    return output.with_name(f"{output.name}.part-{private.name}")


def remove_part(private: Path, output: Path) -> None:
    """Remove a copy of the results that a kill has left unfinished."""
    _remove(_build_part_path(private, output))


def _move(whole: Path, output: Path, part: Path) -> None:
    try:
        whole.rename(output)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(whole, part, symlinks=True)
        part.rename(output)


def move_upkeep(results: Path) -> None:
    """Put what was done before new work into a folder of its own."""
    place = results / UPKEEP
    place.mkdir(exist_ok=True)
    for name in ("bundle", NOTARY, "published.json"):
        if (results / name).exists():
            (results / name).rename(place / name)


def _remove(path: Path) -> None:
    """Remove a file or folder, as much of it as can be."""
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
    """Write ``index.txt`` where there are logs. A full disk keeps no log from its place."""
    with contextlib.suppress(OSError):
        sizes = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.name != INDEX}
        if sizes:
            (folder / INDEX).write_text(format_log_index(sizes), encoding="utf-8")


def format_log_index(sizes: dict[str, int]) -> str:
    """The text for logs by their names, with their bytes; those that are empty come last."""
    width = max(map(len, sizes))
    filled = {name: size for name, size in sizes.items() if size}
    rows = [f"{n:<{width}}  {size:>9}  {_describe(n)}".rstrip() for n, size in filled.items()]
    empty = [name for name in sizes if name not in filled]
    last = [f"\nNothing was printed to {', '.join(empty)}"] if empty else []
    return "\n".join([_HEAD, *rows, *last]) + "\n"


def _describe(name: str) -> str:
    """What a log is by its name, "" for one of a later version."""
    stem, _, kind = name.removesuffix(".gz").partition(".")
    where = {"out": "stdout of ", "err": "stderr of "}.get(kind, "")
    for pattern, text in _KINDS:
        if found := re.fullmatch(pattern, stem):
            return where + text.format(*found.groups())
    return ""
