"""What a process behind the boundary may read, and where it looks for programs."""

from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox.launch import Sandbox
from gitlab_nightshift.host.sandbox.probe import choose
from gitlab_nightshift.host.sandbox.records import Tier
from gitlab_nightshift.host.sandbox.system import System
from gitlab_nightshift.work.boundary import Boundary


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
