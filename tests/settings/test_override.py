"""Values of one run over the settings."""

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


def test_only_these_values_change_and_tell_where_they_come_from() -> None:
    settings = load_settings({"NIGHTSHIFT_MAX_OUTPUT": "1 MB"}, FILE)
    made = override_settings(
        settings, {"task": " x ", "models.mr": "m", "dry_run": True}, "the comment"
    )
    assert (made.task, made.models.mr, made.dry_run) == ("x", "m", True)
    assert (made.find_source("task"), made.find_source("models.mr")) == (
        "the comment",
        "the comment",
    )
    assert made.find_source("models.verify") == settings.find_source("models.verify")
    same = {
        **made.flatten_values(),
        "task": None,
        "models.mr": settings.models.mr,
        "dry_run": False,
    }
    assert same == settings.flatten_values()


def test_the_models_that_somebody_asked_for_stay_with_any_agent() -> None:
    beads = {f"models.{bead}": "m" for bead in ("analyze", "implement", "verify", "mr")}
    made = override_settings(load_settings({}), {"agent": "codex", **beads}, "the comment")
    assert set(vars(made.with_agent("codex").models).values()) == {"m"}


@each(
    ("values", "why"),
    [
        ({"agent": "gpt"}, "agent: "),
        ({"task": "x" * 20_001}, "task: "),
        ({"dry_run": "?"}, "dry_run"),
    ],
)
def test_a_bad_value_is_one_line(values: dict[str, object], why: str) -> None:
    with pytest.raises(NightshiftError, match=f"^the comment: {why}") as error:
        override_settings(load_settings({}), values, "the comment")
    assert "\n" not in error.value.message
