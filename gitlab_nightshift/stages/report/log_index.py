"""The index of a night's raw logs: what each file holds, so that nobody opens fifty to find one."""

import contextlib
import re
from pathlib import Path

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
