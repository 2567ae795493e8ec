"""A bead's prompt: what all share first, this program's own sections last."""

from gitlab_nightshift.records.bead_results import BeadResult, BeadStatus
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.stages.work.bead_prompt import (
    build_bead_prompt,
    format_hand_over,
    format_last_sections,
    format_limits,
)
from gitlab_nightshift.stages.work.run_budget import Ledger

BRIEF = "<repository_brief>\n…\n</repository_brief>\n"


def ledger(deadline: float | None = None, most: int | None = None) -> Ledger:
    made = Ledger(SpendingLimit(10.0, most), deadline)
    usage = Usage(1.25, 4000)
    made.results.append(BeadResult("analyze", "tests", 1, "m", BeadStatus.OK, usage, 1.0))
    return made


def test_preamble_brief_line_template_and_what_varies_last() -> None:
    made = build_bead_prompt("# Task: {{category}}\n", {"category": "docs"}, BRIEF, "\n## Last\n")
    assert made.shared == f"{INJECTION_MITIGATION_PREAMBLE}\n{BRIEF}"
    assert made.rest == "\n---\n\n# Task: docs\n\n## Last\n"


def test_nothing_in_a_template_moves_what_is_shared() -> None:
    first = build_bead_prompt("a", {}, BRIEF, "")
    other = build_bead_prompt("\n---\n\n{{x}}", {"x": BRIEF}, BRIEF, "more")
    assert first.shared == other.shared


def test_sections_that_this_program_adds() -> None:
    text = format_last_sections(ledger(), {"Found": "Seen.\n"}, "Report it.")
    assert text == (
        "\n## Found\n\nSeen.\n"
        "\n## What is left\n\nFor this step and all that follow:\n\n- Money: $8.75 of $10.00\n"
        "\n## Hand over\n\nReport it.\n"
    )
    alone = format_last_sections(ledger(), {}, "")
    assert alone.count("## ") == 1


def test_tokens_and_time_where_they_are_limited() -> None:
    lines = format_limits(ledger(deadline=0.0, most=5000)).splitlines()
    assert lines[3:] == ["- Tokens: 1000 of 5000", "- Time: 0 minutes"]


def test_one_way_to_hand_over() -> None:
    by_file = format_hand_over("", "/x/handoff.json")
    assert "to /x/handoff.json" in by_file
    assert "read it, then replace it whole" in by_file
    by_tool = format_hand_over("by the tool StructuredOutput", "/x/handoff.json")
    assert "by the tool StructuredOutput, once" in by_tool
    assert "handoff.json" not in by_tool
