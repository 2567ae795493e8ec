"""Work may see only the parts of HOME to which PATH, links and settings lead."""

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
    home = tmp_path / "home"
    for name in ("node/bin/node", ".tools/bin/cargo", ".local/share/claude/versions/2", "diary"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    return home


def needs(home: Path, *folders: Path) -> set[str]:
    search_path = ":".join(map(str, folders))
    paths = list_home_needs({}, search_path, str(home), home.parent / "checkout", ())
    return {str(Path(path).relative_to(home)) for path in paths}


def test_installations_and_shared_folders_on_path_are_visible(home: Path) -> None:
    assert needs(home, home / "node/bin", home / ".tools/bin") == {"node", ".tools/bin"}


def test_targets_of_links_on_path_are_visible(home: Path) -> None:
    """From a folder of HOME, and from one of the system."""
    inside, outside = home / ".local/bin", home.parent / "system"
    for folder in (inside, outside):
        folder.mkdir()
    (inside / "claude").symlink_to("../share/claude/versions/2")
    (outside / "node").symlink_to(home / "node/bin/node")
    assert needs(home, inside) == {".local/bin", ".local/share/claude/versions"}
    assert needs(home, outside) == {"node"}


def test_caches_of_tools_are_visible(home: Path) -> None:
    (home / "go/pkg/mod").mkdir(parents=True)
    assert needs(home) == {"go/pkg/mod"}


def test_a_program_in_home_itself_opens_nothing_else(home: Path) -> None:
    (home.parent / "bin").mkdir()
    (home.parent / "bin/tool").symlink_to(home / "diary")
    assert needs(home, home.parent / "bin", home) == {"diary"}
    assert find_installation(home / "tool", home) == home / "tool"


def test_nested_and_missing_paths_are_left_out(home: Path) -> None:
    (home / "link").symlink_to("node")
    asked = [home, home / "node", home / "node/bin", home / "missing", home / "link", Path("/usr")]
    found = select_below(str(home), map(str, asked))
    assert found == (str(home / "node"), str(home / "link"))


def test_a_home_that_contains_the_system_is_not_hidden(home: Path) -> None:
    def find(place: Path, *writable: Path) -> str:
        return find_hidden_home({"HOME": str(place)}, map(str, writable))

    assert find(home) == find(home, home / "builds/shop") == str(home)
    for shown in (Path("/"), Path("/usr"), Path("/home"), Path(sys.prefix), home / "missing"):
        assert find(shown) == ""
    assert find(home, home.parent) == find(home, home) == ""
    assert find_hidden_home({}, ()) == ""
    assert list_home_needs({}, "/usr/bin", "", home, ()) == ()
