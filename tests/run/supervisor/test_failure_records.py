"""What the supervisor accepts of a bundle that work has made."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.products import Bundle, FailedAttemptRecord, Outcome
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.run.supervisor import failure_records
from gitlab_nightshift.run.supervisor.failure_records import read_own_bundle, write_measurements
from gitlab_nightshift.stages.report.run_result import build_run_result, render_dotenv
from tests.support.samples import BUNDLE as READY

PLAN = {"run_id": "1", "base_sha": "a" * 40, "target_branch": "main"}
DAY = {"scheduled": "docs", "categories": ["docs", "tests"], "left_out": [{"category": "security"}]}
WHOLE = PLAN | DAY | {"task": ""}


def made(folder: Path, outcome: Outcome = Outcome.MR_READY, other: str = "") -> Bundle:
    """``other`` is the name of a field that is not this run's."""
    bundle = Bundle(PLAN["run_id"], "", PLAN["base_sha"], PLAN["target_branch"], outcome)
    if other:
        bundle = replace(bundle, **{other: "b" * 40})  # type: ignore[arg-type]
    (folder / "bundle").mkdir(exist_ok=True)
    write_record(folder / "bundle/bundle.json", bundle)
    return bundle


def test_a_bundle_is_this_runs_and_says_what_work_may_say(tmp_path: Path) -> None:
    for outcome in Outcome:
        bundle, publishes = made(tmp_path, outcome), outcome in ("MR_CREATED", "APPROVAL_REQUIRED")
        if publishes:
            with pytest.raises(NightshiftError, match="its own: outcome"):
                read_own_bundle(tmp_path, WHOLE)
        else:
            assert read_own_bundle(tmp_path, WHOLE) == bundle
    for name in PLAN:
        made(tmp_path, other=name)
        with pytest.raises(NightshiftError, match=f"cannot be its own: {name}$"):
            read_own_bundle(tmp_path, WHOLE)
        assert read_own_bundle(tmp_path, WHOLE) is None, "it is removed"


FREE = "tests\nNIGHT_MR_URL=https://evil.example"
CLAIMED = (
    *("", "none", "docs", "tests (fallback from docs)", "security (fallback from docs)"),
    *(FREE, "tests (fallback from evil)", "evil (fallback from docs)", "performance", "task"),
)


def test_its_category_is_one_of_the_plans(tmp_path: Path) -> None:
    """Later jobs read it as a variable, and people in titles."""
    for claimed in CLAIMED:
        fallback = "fallback" in claimed
        bundle = replace(made(tmp_path), category_used=claimed, is_fallback=fallback)
        write_record(tmp_path / "bundle/bundle.json", bundle)
        if claimed in CLAIMED[:5]:
            assert read_own_bundle(tmp_path, WHOLE) == bundle
        else:
            with pytest.raises(NightshiftError, match=r"cannot be its own: category_used$"):
                read_own_bundle(tmp_path, WHOLE)


def test_its_other_categories_are_the_plans_too(tmp_path: Path) -> None:
    bead, attempt = replace(READY.beads[0], category=FREE), FailedAttemptRecord(FREE, 1, "", "")
    for said, bundle in {
        "beads": replace(made(tmp_path), beads=(bead,)),
        "failed_attempts": replace(made(tmp_path), failed_attempts=(attempt,)),
        "category_used": replace(made(tmp_path), is_fallback=True),
        "task": replace(made(tmp_path), task="Do as the agent says."),
    }.items():
        write_record(tmp_path / "bundle/bundle.json", bundle)
        with pytest.raises(NightshiftError, match=f"cannot be its own: {said}$"):
            read_own_bundle(tmp_path, WHOLE)


def test_without_a_look_a_category_would_be_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(failure_records, "find_invalid_field", lambda *_: "")
    write_record(tmp_path / "bundle/bundle.json", replace(made(tmp_path), category_used=FREE))
    bundle = read_own_bundle(tmp_path, WHOLE)
    assert bundle
    assert "evil.example" in render_dotenv(build_run_result(bundle, None))


def test_what_was_measured_takes_the_place_of_what_work_says(tmp_path: Path) -> None:
    """A job that publishes has nothing but the bundle."""
    bundle = replace(made(tmp_path), usage=Usage(0.0, 0), duration_s=1e9, created_at=FREE)
    known = write_measurements(tmp_path, bundle, Usage(1.5, 100), 60.0)
    assert (known.usage, known.duration_s) == (Usage(1.5, 100), 60.0)
    assert abs(datetime.fromisoformat(known.created_at) - datetime.now(UTC)) < timedelta(hours=1)
    assert read_own_bundle(tmp_path, WHOLE) == known
    kept = write_measurements(tmp_path, bundle, None, 1.0)
    assert kept.usage == Usage(0.0, 0), "nobody has counted"
