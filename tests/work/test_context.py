"""The values of the placeholders."""

from datetime import UTC, datetime

from gitlab_nightshift.guidance import CATEGORY_GUIDANCE
from gitlab_nightshift.records import AnalysisCandidate, AnalysisResult, OpenMergeRequest, Plan
from gitlab_nightshift.settings import ConfigFile, Job, Settings, load_settings
from gitlab_nightshift.settings.values import PLACEHOLDERS
from gitlab_nightshift.work.context import (
    LONGEST_LIST,
    bead_values,
    deadline,
    listed,
    run_values,
)

PLACES = {"handoff_file", "analysis_file"}
MERGE_REQUEST = OpenMergeRequest(7, "Test\nmore", "https://x/7", "tests", "night-shift/more")
PLAN = Plan(
    run_id="1",
    date="Monday 2026-11-16",
    base_sha="a" * 40,
    target_branch="main",
    scheduled="tests",
    categories=("tests",),
    open_merge_requests=(MERGE_REQUEST,),
    rejected_ideas=("Rename x",),
    recent_files=("a b.py", "c.py"),
    verify_commands=("make test", "sh a.sh"),
)


def settings(text: str) -> Settings:
    return load_settings({}, ConfigFile("nightshift.yaml", text))


def run(text: str = "") -> dict[str, str]:
    job = Job(project_path="acme/shop", project_url="https://gitlab.example/acme/shop")
    return run_values(PLAN, settings(text), job, ("git", "make test"), ("make test",))


def test_every_placeholder_has_a_value_but_the_places_of_the_bead() -> None:
    values = bead_values(run(), settings(""), "tests", left_s=None)
    assert set(values) | PLACES == PLACEHOLDERS
    assert all(isinstance(value, str) for value in values.values())


def test_lists_are_markdown_of_one_line_each() -> None:
    values = run()
    assert values["allowed_commands"] == "- git\n- make test"
    assert values["build_commands"] == "- make test"
    assert values["verify_commands"] == "- make test\n- sh a.sh"
    assert values["recent_files"] == "- a b.py\n- c.py"
    assert values["open_merge_requests"] == "- Test more (!7, branch night-shift/more)"
    assert values["rejected_ideas"] == "- Rename x"
    assert listed([]) == ""


def test_long_lists_are_cut() -> None:
    lines = listed(str(n) for n in range(LONGEST_LIST + 5)).splitlines()
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
    values = bead_values(
        run(), settings(""), "docs", left_s=90, analysis=found, verify_error=" Wrong.\n"
    )
    assert values["category"] == "docs"
    assert values["category_guidance"] == CATEGORY_GUIDANCE["docs"].strip()
    assert values["short_description"] == "Do it."
    assert values["verify_error"] == "Wrong."
    assert values["deadline"].endswith(" (2 minutes left)")
    early = bead_values(run(), settings(""), "docs", left_s=None)
    assert (early["short_description"], early["verify_error"]) == ("", "")


def test_where_to_look_is_part_of_the_guidance() -> None:
    own = settings("paths: [src/, lib/*.py]\nexclude_paths: [src/gen/]\n")
    text = bead_values(run(), own, "tests", left_s=None)["category_guidance"]
    assert text.endswith(
        "Look and change only here: src/, lib/*.py. Leave these paths alone: src/gen/."
    )


def test_the_deadline_is_an_absolute_time() -> None:
    now = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
    assert deadline(None, now) == "none"
    assert deadline(3600, now) == "2026-11-17T00:30+00:00 (60 minutes left)"
