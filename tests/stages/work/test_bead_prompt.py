"""A bead's prompt: what all share first, this program's own sections last."""

from datetime import UTC, datetime

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.bead_results import (
    AnalysisCandidate,
    AnalysisResult,
    BeadResult,
    BeadStatus,
)
from gitlab_nightshift.records.products import KnownMergeRequest, Plan
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.registry.categories import CATEGORY_GUIDANCE, INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import PLACEHOLDERS
from gitlab_nightshift.stages.work.bead_prompt import (
    LONGEST_LIST,
    build_bead_prompt,
    build_bead_values,
    build_run_values,
    format_deadline,
    format_hand_over,
    format_last_sections,
    format_limits,
    format_list,
)
from gitlab_nightshift.stages.work.run_budget import Ledger
from gitlab_nightshift.stages.work.step_input import StepInput

PLACES = {"handoff_file", "analysis_file", "last_patch_file"}
MERGE_REQUEST = KnownMergeRequest(7, "Test\nmore", "https://x/7", "tests", "night-shift/more")
PLAN = Plan(
    run_id="1",
    date="Monday 2026-11-16",
    base_sha="a" * 40,
    target_branch="main",
    scheduled="tests",
    categories=("tests",),
    max_diff_lines=100,
    max_budget_usd=10.0,
    open_merge_requests=(MERGE_REQUEST,),
    rejected_ideas=(
        KnownMergeRequest(
            5,
            "Rename x",
            "",
            "refactoring",
            "b",
            ("a.py",),
            ("x",),
            ("No,\nwe like it",),
            "2026-11-02",
        ),
        KnownMergeRequest(4, "Drop y", "", "docs", "b", day="2026-11-01"),
    ),
    open_elsewhere=(KnownMergeRequest(9, "By hand", "", "", "ada", tuple("abcdefg")),),
    recent_files=("a b.py", "c.py"),
    verify_commands=("make test", "sh a.sh"),
)


def settings(text: str) -> Settings:
    return load_settings({}, ConfigFile("nightshift.yaml", text))


def run(text: str = "") -> dict[str, str]:
    job = JobFacts(project_path="acme/shop", project_url="https://gitlab.example/acme/shop")
    return build_run_values(PLAN, settings(text), job, ("git", "make test"), ("make test",))


def test_every_placeholder_has_a_value_but_the_places_of_the_bead() -> None:
    values = build_bead_values(run(), settings(""), "tests", left_s=None)
    assert set(values) | PLACES == PLACEHOLDERS
    assert all(isinstance(value, str) for value in values.values())


def test_lists_are_markdown_of_one_line_each() -> None:
    values = run()
    assert values["allowed_commands"] == "- git\n- make test"
    assert values["build_commands"] == "- make test"
    assert values["verify_commands"] == "- make test\n- sh a.sh"
    assert values["recent_files"] == "- a b.py\n- c.py"
    assert values["open_merge_requests"] == (
        "- Test more (!7, branch night-shift/more)\n"
        "- By hand (!9, branch ada, changes a, b, c, d, e and 2 more)"
    )
    assert values["rejected_ideas"] == (
        "- Rename x (!5, closed on 2026-11-02): No, we like it; files: a.py\n"
        "- Drop y (!4, closed on 2026-11-01): no reason given"
    )
    assert format_list([]) == ""


def test_long_lists_are_cut() -> None:
    lines = format_list(str(n) for n in range(LONGEST_LIST + 5)).splitlines()
    assert len(lines) == LONGEST_LIST + 1
    assert lines[-1] == "- … and 5 more"


def test_reviewers_and_the_projects_address() -> None:
    values = run("reviewer: rita\nreviewers: [rob]\nrepo_url: https://other.example/x\n")
    assert values["reviewer"] == "rita, rob"
    assert values["repo_url"] == "https://other.example/x"
    assert run()["repo_url"] == "https://gitlab.example/acme/shop"


def test_the_teams_own_values() -> None:
    assert run("variables: {style: ' Black '}\n")["style"] == "Black"


def test_a_bead_gets_what_the_night_knows() -> None:
    found = AnalysisResult(
        result="IMPROVEMENT_FOUND", selected=AnalysisCandidate(("a.py",), " Do it.\n")
    )
    values = build_bead_values(
        run(), settings(""), "docs", left_s=90, analysis=found, step_input=StepInput(" Wrong.\n")
    )
    assert values["category"] == "docs"
    assert values["category_guidance"] == CATEGORY_GUIDANCE["docs"].strip()
    assert values["short_description"] == "Do it."
    assert values["verify_error"] == "Wrong."
    assert values["deadline"].endswith(" (2 minutes left)")
    early = build_bead_values(run(), settings(""), "docs", left_s=None)
    assert (early["short_description"], early["verify_error"]) == ("", "")


def test_where_to_look_is_part_of_the_guidance() -> None:
    own = settings("paths: [src/, lib/*.py]\nexclude_paths: [src/gen/]\n")
    text = build_bead_values(run(), own, "tests", left_s=None)["category_guidance"]
    assert text.endswith(
        "Look and change only here: src/, lib/*.py. Leave these paths alone: src/gen/."
    )


def test_the_teams_instructions_are_added_to_the_guidance() -> None:
    own = settings(
        "instructions: {all: ' Use {{unit}}, not \\{{unit}}. ', docs: 'In British English.'}\n"
        "variables: {unit: '{{category}} cents'}\n"
    )

    def added(category: str) -> str:
        text = build_bead_values(run(), own, category, left_s=None)["category_guidance"]
        guidance = own.guidance[category].strip()
        assert text.startswith(guidance)
        return text.removeprefix(guidance)

    everywhere = "\n\nThe team adds: Use {{category}} cents, not {{unit}}."
    assert added("tests") == added("task") == everywhere
    assert added("docs") == f"{everywhere}\n\nThe team adds: In British English."


def test_the_deadline_is_an_absolute_time() -> None:
    now = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
    assert format_deadline(None, now) == "none"
    assert format_deadline(3600, now) == "2026-11-17T00:30+00:00 (60 minutes left)"


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
