"""What CONTRIBUTING promises who adds one: it stands in one place, and all else follows.

Agents and commands have such tests of their own (``agents/test_choice.py``, ``test_commands.py``).
"""

import json
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.proof.syntax import languages
from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.records.events import to_line
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.settings import config_file, load
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.field_checks import check_bounds
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.wire import event_wire


@dataclass(frozen=True, kw_only=True)
class WithNaps(Settings):
    naps: Annotated[int, check_bounds(ge=1, le=9)] = 3
    """Naps a night."""


def test_a_setting_is_a_field_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    load._build_adapter.cache_clear()
    for module in (load, config_file):
        monkeypatch.setattr(module, "Settings", WithNaps)
    try:
        sources: dict[str, dict[str, Any]] = {
            "default": {},
            "nightshift.yaml:1": {"file": ConfigFile("nightshift.yaml", "naps: 5\n")},
            "variable NIGHTSHIFT_NAPS": {"env": {"NIGHTSHIFT_NAPS": "5"}},
            "command line": {"overrides": {"naps": "5"}},
        }
        for source, given in sources.items():
            settings = load.load_settings(**{"env": {}, **given})
            assert settings.find_source("naps") == source
            assert asdict(settings)["naps"] == (5 if given else 3)
        with pytest.raises(NightshiftError, match="naps"):
            load.load_settings({"NIGHTSHIFT_NAPS": "10"})
    finally:
        load._build_adapter.cache_clear()


@dataclass(frozen=True)
class DoorOpened:
    by: str


def test_an_event_is_a_record_that_goes_through_all_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(event_wire.KINDS, "door_opened", DoorOpened)
    event: Any = DoorOpened("ada")
    sent = event_wire.encode_event(map_texts(event, str.upper))
    received: Any = event_wire.decode_event(sent, ("door_opened",))
    assert received == DoorOpened("ADA")
    line = json.loads(to_line(received, datetime.now(UTC), "1"))
    assert (line["event"], line["by"]) == ("door_opened", "ADA")


def test_a_language_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "languages"
    shutil.copytree(languages._FOLDER, folder)
    (folder / "serpent").mkdir()
    table = 'like = "python"\nqueries = "python"\nextensions = ".serpent"\ntest_files = "^test_"\n'
    (folder / "serpent/language.toml").write_text(table)
    monkeypatch.setattr(languages, "_FOLDER", folder)
    languages._read_languages.cache_clear()
    try:
        source = b"class TestNest:\n    def test_eggs(self):\n        assert lay() == 1\n"
        side = Side("test_nest.serpent", source)
        assert side.is_test_file
        assert [test.name for test in side.tests] == ["test_eggs"]
    finally:
        languages._read_languages.cache_clear()
