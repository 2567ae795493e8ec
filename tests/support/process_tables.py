"""The table of processes in the two pages that show it, made from the code: ``make docs``."""

import re
from collections.abc import Iterable
from pathlib import Path

from gitlab_nightshift.sandbox.process_table import ROWS, Confined, ProcessRow

ROOT = Path(__file__).parents[2]
SECURITY, ARCHITECTURE = ROOT / "SECURITY.md", ROOT / "docs/architecture.md"
BEGIN, END = "<!-- processes: made by `make docs` -->", "<!-- /processes -->"
WORDS = {
    "/": "all but HOME's credentials",
    "{repository}": "the repository",
    "{objects}": "git's objects",
    "{private}": "the run's folder",
    "{own}": "a folder of its own",
    "{temporary}": "temporary files",
    "{output}": "the folders of `--format`",
    "{live}": "the delegation's folder",
    "{named}": "files that settings name",
    "{results}/bundle": "the bundle",
    "{results}/result.json": "the result",
}
_OTHERS = ("published.json", "upkeep/bundle", "upkeep/published.json")
_BUNDLES = (f"{{results}}/{name}" for name in _OTHERS)
UNSAID = ("{installation}", "{network}", "{programs}", *_BUNDLES)
"""What goes without saying: what a process consists of, and other files of the bundle's kind."""
KEPT = {
    Confined.AT_START: "start",
    Confined.ON_TASK: "task",
    Confined.AS_WORK: "[agents](#the-reader)",
    Confined.NOT: "–",
}


def render_security() -> str:
    """What each holds, reads of an agent's, may access, and whether it is kept to that."""
    rows = (
        (row.name, row.secrets, row.agent_bytes, _list_access(row), KEPT[row.confined])
        for row in ROWS
    )
    head = "process", "secrets", "bytes of an agent", "may access", "kept to it from"
    return _render(head, rows)


def render_architecture() -> str:
    """Where each is, and who starts it."""
    rows = (
        (row.name, f"`{row.module.partition('.')[2]}`", ", ".join(row.commands), row.children)
        for row in ROWS
    )
    return _render(("process", "module", "of", "starts"), rows)


def complete(text: str, table: str) -> str:
    """A page with the table between its marks."""
    assert BEGIN in text and END in text
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    return re.sub(pattern, lambda _: f"{BEGIN}\n{table}{END}", text, flags=re.DOTALL)


def _list_access(row: ProcessRow) -> str:
    reads = dict.fromkeys(WORDS.get(text, text) for text in row.reads if text not in UNSAID)
    parts = [f"reads {', '.join(reads)}"] if reads else []
    parts += [f"writes {', '.join(WORDS.get(text, text) for text in row.writes)}"] * bool(
        row.writes
    )
    parts += [f"network: {row.network}"] * bool(row.network)
    parts += [f"attributes of {row.attributes}"] * bool(row.attributes)
    return "; ".join(parts)


def _render(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, *(tuple(cell or "–" for cell in row) for row in rows)]
    first, *rest = (f"| {' | '.join(line)} |\n" for line in lines)
    return "".join((first, f"|{'---|' * len(head)}\n", *rest))


if __name__ == "__main__":
    for page, made in ((SECURITY, render_security()), (ARCHITECTURE, render_architecture())):
        page.write_text(complete(page.read_text(encoding="utf-8"), made), encoding="utf-8")
