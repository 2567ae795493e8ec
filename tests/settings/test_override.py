"""Settings overridden by values of one run."""

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings, override_settings
from tests.support.tables import each

FILE = ConfigFile(
    "nightshift.yaml",
    "quiet_dates: [2026-12-24]\nidle_timeout: 5m\nmodels: {verify: mine}\n"
    "policy: {test_commands: {unit: {command: [make, test]}}, egress_hosts: [pypi.org]}\n",
)


def test_only_these_values_and_their_sources_change() -> None:
    settings = load_settings({"NIGHTSHIFT_MAX_OUTPUT": "1 MB"}, FILE)
    overridden = override_settings(
        settings, {"task": " x ", "models.mr": "m", "dry_run": True}, "the comment"
    )
    assert (overridden.task, overridden.models.mr, overridden.dry_run) == ("x", "m", True)
    assert overridden.find_source("task") == overridden.find_source("models.mr") == "the comment"
    assert overridden.find_source("models.verify") == settings.find_source("models.verify")
    before = {"task": None, "models.mr": settings.models.mr, "dry_run": False}
    assert {**overridden.flatten_values(), **before} == settings.flatten_values()


def test_overridden_models_stay_with_any_agent() -> None:
    beads = {f"models.{bead}": "m" for bead in ("analyze", "implement", "verify", "mr")}
    overridden = override_settings(load_settings({}), {"agent": "codex", **beads}, "the comment")
    assert set(vars(overridden.with_agent("codex").models).values()) == {"m"}


@each(
    ("values", "why"),
    [
        ({"agent": "gpt"}, "agent: "),
        ({"task": "x" * 20_001}, "task: "),
        ({"dry_run": "?"}, "dry_run"),
    ],
)
def test_an_invalid_value_is_one_line(values: dict[str, object], why: str) -> None:
    with pytest.raises(NightshiftError, match=f"^the comment: {why}") as error:
        override_settings(load_settings({}), values, "the comment")
    assert "\n" not in error.value.message
