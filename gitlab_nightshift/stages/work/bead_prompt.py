"""The prompt of one bead: first the part that all beads share, then its own."""

from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.policy.prompts import render_bead_prompt, render_shared_beginning
from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.work.run_budget import Ledger


@dataclass(frozen=True)
class BeadPrompt:
    """A prompt in two parts: ``shared`` is the same for all beads of a run."""

    shared: str
    rest: str


def build_bead_prompt(
    template: str, values: Mapping[str, str], brief: str, last: str
) -> BeadPrompt:
    """Render a prompt. ``last`` are the sections that this program adds."""
    whole = render_bead_prompt(template, values, brief, last)
    shared = render_shared_beginning(brief)
    return BeadPrompt(shared, whole.removeprefix(shared))


def format_last_sections(ledger: Ledger, sections: Mapping[str, str], hand_over: str) -> str:
    """The text below every template, including a team's own: ``sections`` by title, the budget
    left, and how to hand over the report. Empty parts are left out."""
    parts = {
        **sections,
        "What is left": format_limits(ledger),
        "Hand over": hand_over,
    }
    return "".join(f"\n## {title}\n\n{text.strip()}\n" for title, text in parts.items() if text)


def format_limits(ledger: Ledger) -> str:
    """Money, tokens and time left for this step and all that follow."""
    left, limit, seconds = ledger.compute_left(), ledger.limit, ledger.compute_left_s()
    lines = [f"- Money: {format_usd(left.usd)} of {format_usd(limit.usd)}"]
    if left.tokens is not None:
        lines.append(f"- Tokens: {left.tokens} of {limit.tokens}")
    if seconds is not None:
        lines.append(f"- Time: {max(seconds, 0) / 60:.0f} minutes")
    return "\n".join(["For this step and all that follow:", "", *lines])


def format_hand_over(report_by: str, handoff_file: str) -> str:
    """How to hand over the report: by the agent's own means, or else by the file."""
    if report_by:
        return f"Report the JSON object {report_by}, once, at the end. Do not write it to a file."
    return (
        f"Write the JSON object, and nothing else, to {handoff_file} at the end. The file holds a "
        "stub: read it, then replace it whole."
    )
