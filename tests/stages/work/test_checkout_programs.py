"""Which folders of a checkout count as its programs, and what their links open."""

from pathlib import Path

import pytest

from gitlab_nightshift.records.events import Event
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.checkout_programs import (
    find_checkout_programs,
    open_linked_tools,
)
from gitlab_nightshift.stages.work.tool_access import JobFolders
from gitlab_nightshift.system.environment import build_search_path
from tests.repository.tools import repository
from tests.sandbox.tools import SYSTEM_PATH

IGNORES = "node_modules\nvendor/bin/\n*.venv\nheld/*\n!held/kept\n"
FILES = {".gitignore": IGNORES, "vendor/a.php": "", "tools/run": "", "held/kept": ""}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    repository(root, FILES)
    for name in ("node_modules/.bin", "vendor/bin", ".venv/bin", "own/bin", "new", "nightshift/b"):
        (root / name).mkdir(parents=True)
    (root / "own/.gitignore").write_text("*\n")
    (root / "nightshift/.gitignore").write_text("*\n")
    return root


def found(top: Path, *folders: str) -> list[str]:
    path = ":".join([*(f"{top}/{folder}" for folder in folders), SYSTEM_PATH])
    git = build_isolated_git(top.parent / "git", SYSTEM_PATH)
    programs = find_checkout_programs({"PATH": path}, git, top, "nightshift")
    return [str(folder.relative_to(top.resolve())) for folder in programs]


def test_ignored_folders_count_whoever_ignores_them(top: Path) -> None:
    names = ["node_modules/.bin", "vendor/bin", ".venv/bin", "own/bin"]
    assert found(top, *names) == names


def test_a_folder_that_is_part_of_a_change_does_not_count(top: Path) -> None:
    (top / "link").symlink_to("tools")
    assert found(top, "tools", "new", "held", "", "link", ".git/hooks", "nightshift/b") == []


def test_path_keeps_its_order(top: Path) -> None:
    path = f"/opt/a:{top}/.venv/bin:{top}/tools:{SYSTEM_PATH}"
    programs = (top.resolve() / ".venv/bin",)
    inside = f"/opt/a:{top.resolve()}/.venv/bin:{SYSTEM_PATH}"
    assert build_search_path({"PATH": path}, top, programs) == inside
    assert build_search_path({"PATH": path}, top) == f"/opt/a:{SYSTEM_PATH}"


def test_installations_behind_links_are_opened_or_named(top: Path, tmp_path: Path) -> None:
    home, said = tmp_path / "home", list[Event]()
    python = home / ".pyenv/versions/3.12/bin/python3.12"
    for place in (python, home / "run"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (home / ".netrc").touch()
    folder = top.resolve() / ".venv/bin"
    (folder / "python").symlink_to(python)
    (folder / "sh").symlink_to("/bin/sh")
    (folder / "other").symlink_to("python")
    (folder / "login").symlink_to(home / ".netrc")
    settings = load_settings({}, None, {})
    folders = JobFolders(home, top.resolve(), tmp_path / "private")
    opened = open_linked_tools(settings, (folder,), folders, said.append)
    assert opened.agent_paths == [f"{home}/.pyenv/versions/3.12"]
    assert [str(getattr(each, "text", each)) for each in said] == [
        f"PATH leads to {home}/.netrc, which stays hidden, as it would expose {home}/.netrc;"
        " install it in a folder that holds only tools"
    ]
