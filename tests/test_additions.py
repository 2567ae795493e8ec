"""What CONTRIBUTING promises who adds one: it stands in one place, and all else follows.

Agents, commands and settings have such tests of their own
(``nights_agents/test_example_provider.py``, ``test_commands.py``, ``settings/test_model.py``).
"""

import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitlab_nightshift.proof.running.fault_kinds import list_faults
from gitlab_nightshift.proof.running.switches import write_switched_files
from gitlab_nightshift.proof.syntax import languages
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.records.events import Event, to_line
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.sandbox.process_table import INSTALLATION_FILES, ROWS, Confined
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.wire import channel
from tests.sandbox.conftest import need
from tests.support import process_tables
from tests.support.stages import PLAIN_STAGE, real_start


@dataclass(frozen=True)
class DoorOpened(Event):
    by: str


def print_door(log: JobLog, event: DoorOpened) -> None:
    log._print(f"opened by {event.by}")


def test_an_event_is_a_record_that_goes_through_all_pipes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the job log's line for it."""
    monkeypatch.setitem(channel.EVENT_CLASSES, "door_opened", DoorOpened)
    vars(JobLog)["_show"].register(DoorOpened, print_door)
    sent = channel.encode_event(map_texts(DoorOpened("ada"), str.upper))
    received = channel.decode_event(sent, ("door_opened",))
    assert received == DoorOpened("ADA")
    JobLog(sections=False, colour=False, redact=str)(received)
    assert capsys.readouterr().out == "opened by ADA\n"
    line = json.loads(to_line(received, datetime.now(UTC), "1"))
    assert (line["event"], line["by"]) == ("door_opened", "ADA")


def test_a_process_is_a_row_that_it_is_kept_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that SECURITY.md shows."""
    need(Tier.LANDLOCK)
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.write_text("a secret")
    paths = (INSTALLATION_FILES, "{private}")
    row = replace(PLAIN_STAGE, name="doorkeeper", confined=Confined.AT_START, reads=paths)
    row = replace(row, writes=("{private}",))
    code = f"open('{own}/made', 'w').write('made')\nopen('{other}').read()"
    with real_start(row, {"code": code}, {}, places={"private": str(own)}) as process:
        _, said = process.communicate(timeout=60)
    assert (own / "made").read_text() == "made"
    assert f"Permission denied: '{other}'" in said.decode()
    monkeypatch.setattr(process_tables, "ROWS", (*ROWS, row))
    assert "| doorkeeper | – | – | reads the run's folder; " in process_tables.render_table()


def test_a_language_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its tests, and with faults in its product code, behind switches."""
    folder = tmp_path / "languages"
    shutil.copytree(languages._FOLDER, folder)
    (folder / "serpent").mkdir()
    table = 'like = "python"\nqueries = "python"\nextensions = ".serpent"\ntest_files = "^test_"\n'
    (folder / "serpent/language.toml").write_text(table)
    for name in ("faults", "switches"):
        (folder / f"serpent/{name}.toml").write_text('like = "python"\n')
    monkeypatch.setattr(languages, "_FOLDER", folder)
    languages._read_languages.cache_clear()
    try:
        source = b"class TestNest:\n    def test_eggs(self):\n        assert lay() == 1\n"
        side = Side("test_nest.serpent", source)
        assert side.is_test_file
        assert [test.name for test in side.tests] == ["test_eggs"]
        product = Side("nest.serpent", b"def lay():\n    return eggs() + 1\n")
        faults = list_faults(product, product.functions)
        assert "`1` off by one" in [fault.what for fault in faults]
        switched = write_switched_files(faults, lambda _path: product.source, "X1")
        assert b"X1" in switched.files["nest.serpent"]
    finally:
        languages._read_languages.cache_clear()
