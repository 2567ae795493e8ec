"""What commands print: for a person, for a pipe, as JSON."""

import difflib
import json
import sys
from collections.abc import Iterable

from gitlab_nightshift.agents.model.answers import render_blocks
from gitlab_nightshift.agents.model.edits import Edit, write_blocks
from gitlab_nightshift.commands.propose_patch import PatchProposal
from gitlab_nightshift.records.usage import format_cost
from gitlab_nightshift.system.retry import write_notice
from gitlab_nightshift.text.printable_text import replace_controls


def write_result(text: str) -> None:
    """Write a command's result to stdout. A model wrote the text, so a terminal does not get its
    control characters; a pipe gets it unchanged."""
    sys.stdout.write(replace_controls(text, "?") if sys.stdout.isatty() else text)


def write_note(line: str) -> None:
    """Write a line for a person to stderr; a model may have written a part of it."""
    write_notice(replace_controls(line, "?"))


def format_proposal(proposal: PatchProposal, form: str) -> str:
    """The blocks, a unified diff or JSON of a proposal (``form``: blocks, diff, json)."""
    if form == "diff":
        return "".join(map(format_diff, proposal.edits))
    blocks = render_blocks(write_blocks(proposal.edits))
    if form != "json":
        return blocks
    whole = {
        "blocks": blocks,
        "files": _build_rows(proposal.edits),
        "reason": proposal.reason,
        "model": proposal.model,
        "tokens": proposal.usage.tokens,
        "cost_usd": proposal.usage.cost_usd,
        "assumed_tokens": proposal.usage.assumed_tokens,
        "assumed_usd": proposal.usage.assumed_usd,
    }
    return json.dumps(whole, indent=2) + "\n"


def format_proposal_line(proposal: PatchProposal) -> str:
    """The model's result and cost, for a person."""
    count = len(proposal.edits)
    found = f"{count} file{'s' if count != 1 else ''}" if count else f"no change: {proposal.reason}"
    return f"{proposal.model}: {found} ({format_cost(proposal.usage)})"


def format_edits(edits: Iterable[Edit], *, dry_run: bool, as_json: bool) -> str:
    """The edits that ``execute`` made, or would make."""
    if as_json:
        whole = {"applied": not dry_run, "dry_run": dry_run, "files": _build_rows(edits)}
        return json.dumps(whole, indent=2) + "\n"
    would = "would be " if dry_run else ""
    return "".join(f"{would}{e.action} {e.path} (+{e.added} -{e.deleted})\n" for e in edits)


def _build_rows(edits: Iterable[Edit]) -> list[dict[str, object]]:
    return [
        {"path": e.path, "action": e.action, "added": e.added, "deleted": e.deleted} for e in edits
    ]


def format_diff(edit: Edit) -> str:
    """A unified diff of one text file, for reading; ``execute`` takes blocks."""
    before, after = (_split_lines(data) for data in (edit.before, edit.after))
    old = "/dev/null" if edit.before is None else f"a/{edit.path}"
    new = "/dev/null" if edit.after is None else f"b/{edit.path}"
    lines = difflib.unified_diff(before, after, old, new)
    ended = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return "".join(ended)


def _split_lines(data: bytes | None) -> list[str]:
    """Lines with their line feeds: other characters do not end a line, as in git."""
    text = (data or b"").decode("utf-8", "replace")
    return [f"{line}\n" for line in text.split("\n")[:-1]] + list(
        filter(None, [text.split("\n")[-1]])
    )
