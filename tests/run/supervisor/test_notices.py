"""Notifications: their addresses, their outcomes, and failures to send them."""

import dataclasses
from pathlib import Path

import pytest

from gitlab_nightshift.records.products import Outcome
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import write_record
from gitlab_nightshift.run.supervisor import notices
from gitlab_nightshift.run.supervisor.notices import expand_addresses, notify
from gitlab_nightshift.sandbox.process_table import NOTIFY
from tests.support.listeners import listening

SKIPPED = RunResult("4711", Outcome.SKIPPED, reason="a quiet date", project="acme/shop")


def test_variables_are_replaced_by_their_values() -> None:
    env = {"CHAT": "slack://a/b/c ntfy://x\n", "KEY": "k"}
    addresses = ("$CHAT", "ntfy://h/${KEY}", "json://$KEY@h/$NONE", "mailto://x%24y@h")
    assert expand_addresses(addresses, env) == (
        ("slack://a/b/c", "ntfy://x", "ntfy://h/k", "mailto://x%24y@h"),
        ("notify: the variable NONE is not set in this job",),
    )


def test_only_requested_outcomes_are_sent(tmp_path: Path) -> None:
    write_record(tmp_path / "result.json", SKIPPED)
    with listening() as server:
        request = {"addresses": ["$CHAT"], "on": ["FAILED"], "before": ""}
        env = {"CHAT": f"json://127.0.0.1:{server.port}/"}
        assert notify(request, tmp_path, env, {}) == ()
        assert server.came == []
        assert notify({**request, "on": ["SKIPPED"]}, tmp_path, env, {}) == ()
    assert "acme/shop: The night was skipped" in server.texts
    assert "a quiet date" in server.texts


def test_absolute_paths_in_addresses_are_found() -> None:
    addresses = ("fcm://p@t/?keyfile=/run/key.json&x=1", "json://h/?path=../a", "mailto://a@b")
    assert notices.find_named_files(addresses) == ("/run/key.json",)


def test_without_addresses_or_a_result_nothing_is_started(tmp_path: Path) -> None:
    assert notify({}, tmp_path, {}, {}) == ()
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    assert notify(request, tmp_path, {}, {}) == ()  # without a result


def test_a_process_that_dies_is_only_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").write_text("{}")
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    warnings = notify(request, tmp_path, {}, {})
    assert warnings == ("notify: its process ended before it was done",)
    assert capfd.readouterr().err == ""  # with a traceback, addresses could reach the job's log


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: object) -> None:
    write_record(tmp_path / "result.json", SKIPPED)
    impatient = dataclasses.replace(NOTIFY, wall_s=0.001)
    monkeypatch.setattr(notices, "NOTIFY", impatient)  # type: ignore[attr-defined]
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    warnings = notify(request, tmp_path, {}, {})
    assert warnings == ("notify: its process ended before it was done",)
