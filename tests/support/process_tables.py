"""The table of processes in SECURITY.md, made from the code: ``make docs``."""

import re
from pathlib import Path

from gitlab_nightshift.sandbox.process_table import ROWS, Attributes, Confined, ProcessRow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "SECURITY.md"
BEGIN, END = "<!-- processes: made by `make docs` -->", "<!-- /processes -->"
WORDS = {
    "/": "most files",
    "{repository}": "the repository",
    "{objects}": "git's objects",
    "{private}": "the run's folder",
    "{own}": "its own folder",
    "{temporary}": "temporary files",
    "{output}": "the folders of `--format`",
    "{live}": "the delegation's folder",
    "{named}": "files that settings name",
    "{results}/bundle": "the bundle",
    "{results}/notary.json": "`notary.json`",
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


def render_table() -> str:
    """What each holds, reads of an agent's, may access, and whether it is kept to that."""
    rows = (
        (_name(row), row.secrets, row.agent_bytes, _list_access(row), KEPT[row.confined])
        for row in ROWS
    )
    head = "process", "secrets", "bytes of an agent", "may access", "kept to it from"
    lines = [head, *(tuple(cell or "–" for cell in row) for row in rows)]
    first, *rest = (f"| {' | '.join(line)} |\n" for line in lines)
    return "".join((first, f"|{'---|' * len(head)}\n", *rest))


def _name(row: ProcessRow) -> str:
    """With the commands whose process it is, unless it is a night's or named so."""
    others = [each for each in row.commands if each not in row.name and "run" not in row.commands]
    return f"{row.name} ({', '.join(others)})" if others else row.name


def complete_page(text: str) -> str:
    """The page with the table of today."""
    assert BEGIN in text and END in text
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    return re.sub(pattern, lambda _: f"{BEGIN}\n{render_table()}{END}", text, flags=re.DOTALL)


def _list_access(row: ProcessRow) -> str:
    reads = dict.fromkeys(WORDS.get(text, text) for text in row.reads if text not in UNSAID)
    parts = [f"reads {', '.join(reads)}"] if reads else []
    writes = [WORDS.get(text, text) for text in row.writes]
    writes += ["their attributes"] * (row.attributes is Attributes.WRITTEN)
    writes += ["any file's attributes"] * (row.attributes is Attributes.ANY)
    parts += [f"writes {', '.join(writes)}"] * bool(writes)
    parts += [f"network: {row.network}"] * bool(row.network)
    parts += [f"starts {row.children}"] * bool(row.children)
    return "; ".join(parts)


if __name__ == "__main__":
    PAGE.write_text(complete_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
