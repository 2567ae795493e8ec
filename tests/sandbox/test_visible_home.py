"""What of HOME work may see: what PATH, links and settings lead to, and nothing else."""

import sys
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.visible_home import (
    find_hidden_home,
    find_installation,
    list_home_needs,
    select_below,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    for name in ("node/bin/node", ".tools/bin/cargo", ".local/share/claude/versions/2", "diary"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).touch()
    return made


def needs(home: Path, *folders: Path) -> set[str]:
    path = ":".join(map(str, folders))
    found = list_home_needs({}, path, str(home), home.parent / "checkout", ())
    return {str(Path(path).relative_to(home)) for path in found}


def test_an_installation_on_path_is_seen_whole_and_a_shared_folder_alone(home: Path) -> None:
    assert needs(home, home / "node/bin", home / ".tools/bin") == {"node", ".tools/bin"}


def test_what_a_link_on_path_leads_to_is_seen(home: Path) -> None:
    """From a folder of HOME, and from one of the system."""
    inside, outside = home / ".local/bin", home.parent / "system"
    for folder in (inside, outside):
        folder.mkdir()
    (inside / "claude").symlink_to("../share/claude/versions/2")
    (outside / "node").symlink_to(home / "node/bin/node")
    assert needs(home, inside) == {".local/bin", ".local/share/claude/versions"}
    assert needs(home, outside) == {"node"}


def test_caches_of_tools_are_seen(home: Path) -> None:
    (home / "go/pkg/mod").mkdir(parents=True)
    assert needs(home) == {"go/pkg/mod"}


def test_a_program_in_home_itself_opens_nothing_else(home: Path) -> None:
    (home.parent / "bin").mkdir()
    (home.parent / "bin/tool").symlink_to(home / "diary")
    assert needs(home, home.parent / "bin", home) == {"diary"}
    assert find_installation(home / "tool", home) == home / "tool"


def test_what_lies_in_another_or_is_not_there_is_left_out(home: Path) -> None:
    (home / "link").symlink_to("node")
    asked = [home, home / "node", home / "node/bin", home / "missing", home / "link", Path("/usr")]
    found = select_below(str(home), map(str, asked))
    assert found == (str(home / "node"), str(home / "link"))


def test_a_home_that_holds_what_work_needs_is_not_hidden(home: Path) -> None:
    def find(place: Path, *writable: Path) -> str:
        return find_hidden_home({"HOME": str(place)}, map(str, writable))

    assert find(home) == find(home, home / "builds/shop") == str(home)
    for shown in (Path("/"), Path("/usr"), Path("/home"), Path(sys.prefix), home / "missing"):
        assert find(shown) == ""
    assert find(home, home.parent) == find(home, home) == ""
    assert find_hidden_home({}, ()) == ""
    assert list_home_needs({}, "/usr/bin", "", home, ()) == ()
