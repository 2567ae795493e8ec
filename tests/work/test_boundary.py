"""What a process behind the boundary may read, and where it looks for programs."""

from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.probe import choose
from gitlab_nightshift.host.sandbox.records import Tier
from gitlab_nightshift.host.sandbox.system import System
from gitlab_nightshift.work.boundary import Boundary, _closed


@pytest.fixture
def boundary(tmp_path: Path) -> Boundary:
    """A system with ``/bin`` as a link into ``/usr``, and one tool of the team's."""
    for folder in ("usr/bin", "usr/local/bin", "tools/17/bin", "home/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "tools/current").symlink_to("17")
    (tmp_path / "usr/local/mine").symlink_to(tmp_path / "home/bin")
    none = choose(Tier.NONE, tmp_path)
    machine = System((str(tmp_path / "usr"), str(tmp_path / "bin")))
    sandbox = Sandbox(Tier.LANDLOCK, none.guarantees, none.features, machine)
    return Boundary(sandbox=sandbox, scratch=tmp_path, read_only=(tmp_path / "tools/17",))


def test_the_path_inside(boundary: Boundary, tmp_path: Path) -> None:
    """Links of the system stay; one that leads into a tool folder may not be there inside."""
    given = ("bin", "usr/local/bin", "usr/local/mine", "home/bin", "tools/current/bin", "nowhere")
    path = boundary.search_path(":".join(str(tmp_path / folder) for folder in given))
    kept = ("bin", "usr/local/bin", "tools/17/bin")
    assert path.split(":") == [str(tmp_path / folder) for folder in kept]
    assert boundary.opens(tmp_path / "bin/sh")
    assert not boundary.opens(tmp_path / "home/bin/x")


def hiding(*private: str, opened: tuple[str, ...] = (), cut: tuple[str, ...] = ()) -> Boundary:
    """A boundary on a machine with these private places."""
    none = choose(Tier.NONE, Path("/nowhere"))
    machine = System(("/etc", "/opt"), private, credentials={"/etc/pip.conf": "pip"}, cut=cut)
    sandbox = Sandbox(Tier.LANDLOCK, none.guarantees, none.features, machine)
    return Boundary(sandbox, Path("/nowhere"), tuple(map(Path, opened)))


def test_git_does_not_look_for_settings_that_are_hidden() -> None:
    """It would end at once."""
    assert hiding("/etc/gitconfig").git_env() == {"GIT_CONFIG_NOSYSTEM": "1"}
    assert hiding("/etc/gitconfig", opened=("/etc/gitconfig",)).git_env() == {}
    assert hiding("/etc/shadow").git_env() == {}


def test_what_is_named_is_opened_though_it_is_private() -> None:
    boundary = hiding("/opt/claude", "/opt/key", "/etc/pip.conf", opened=("/opt/claude",))
    assert boundary.opens(Path("/opt/claude/bin/claude"))
    assert not boundary.opens(Path("/opt/key"))
    assert boundary.opens(Path("/opt/other"))


def test_a_build_learns_what_is_hidden() -> None:
    """But not what a system hides everywhere, nor what is opened by name."""
    private = ("/etc/pip.conf", "/etc/shadow", "/opt/claude", "/opt/key", "/opt/sdk")
    boundary = hiding(*private, opened=("/opt/claude",), cut=("/opt/sdk",))
    notes = list(_closed(boundary.sandbox.machine, boundary.read_only))
    assert [note.text.strip() for note in notes] == [
        "/opt/sdk is too large to be searched for private files, so it is hidden; agent_paths opens"
        " what it names",
        "private, so hidden: /etc/pip.conf (pip), /opt/key (agent_paths opens what it names)",
    ]
    assert [note.warning for note in notes] == [True, False]
