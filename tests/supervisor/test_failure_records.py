"""What the supervisor accepts of a bundle that work has made."""

from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.supervisor.failure_records import read_own_bundle

PLAN = {"run_id": "1", "base_sha": "a" * 40, "target_branch": "main"}


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
                read_own_bundle(tmp_path, PLAN)
        else:
            assert read_own_bundle(tmp_path, PLAN) == bundle
    for name in PLAN:
        made(tmp_path, other=name)
        with pytest.raises(NightshiftError, match=f"cannot be its own: {name}$"):
            read_own_bundle(tmp_path, PLAN)
        assert read_own_bundle(tmp_path, PLAN) is None, "it is removed"
