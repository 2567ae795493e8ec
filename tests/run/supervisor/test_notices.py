"""What the supervisor gives to the process that tells people, and what becomes of its failures."""

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
    given = ("$CHAT", "ntfy://h/${KEY}", "json://$KEY@h/$NONE", "mailto://x%24y@h")
    assert expand_addresses(given, env) == (
        ("slack://a/b/c", "ntfy://x", "ntfy://h/k", "mailto://x%24y@h"),
        ("notify: the variable NONE is not set in this job",),
    )


def test_people_are_told_of_the_outcomes_that_they_asked_for(tmp_path: Path) -> None:
    write_record(tmp_path / "result.json", SKIPPED)
    with listening() as there:
        request = {"addresses": ["$CHAT"], "on": ["FAILED"], "before": ""}
        env = {"CHAT": f"json://127.0.0.1:{there.port}/"}
        assert notify(request, tmp_path, env, {}) == ()
        assert there.came == []
        assert notify({**request, "on": ["SKIPPED"]}, tmp_path, env, {}) == ()
    assert "acme/shop: The night was skipped" in there.texts
    assert "a quiet date" in there.texts


def test_files_that_an_address_names_can_be_read() -> None:
    given = ("fcm://p@t/?keyfile=/run/key.json&x=1", "json://h/?path=../a", "mailto://a@b")
    assert notices.find_named_files(given) == ("/run/key.json",)


def test_where_nobody_is_to_be_told_nothing_is_started(tmp_path: Path) -> None:
    assert notify({}, tmp_path, {}, {}) == ()
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    assert notify(request, tmp_path, {}, {}) == ()  # there is no result to tell of


def test_a_process_that_dies_is_a_warning_and_writes_nothing_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").write_text("{}")
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    said = notify(request, tmp_path, {}, {})
    assert said == ("notify: its process ended before it was done",)
    assert capfd.readouterr().err == ""  # with a traceback, addresses could reach the job's log


def test_a_process_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: object) -> None:
    write_record(tmp_path / "result.json", SKIPPED)
    hasty = dataclasses.replace(NOTIFY, wall_s=0.001)
    monkeypatch.setattr(notices, "NOTIFY", hasty)  # type: ignore[attr-defined]
    request = {"addresses": ["json://h/"], "on": ["SKIPPED"], "before": ""}
    said = notify(request, tmp_path, {}, {})
    assert said == ("notify: its process ended before it was done",)
