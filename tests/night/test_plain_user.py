"""A whole night with the real CLI as a plain user, where the tests run as root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent import sh
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, REALLY, nothing, turns
from tests.support.trees import places_of
from tests.support.world import PROVING, ROOT, SECRETS, World, world

PLAIN = 1001
LIBRARIES = ":".join(path for path in sys.path if path.endswith("site-packages"))


def python_of_a_plain_user() -> Path | None:
    """An interpreter that another user can start, with this project's libraries."""
    own = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    for program in own:
        env = {"PYTHONPATH": f"{ROOT}:{LIBRARIES}", "HOME": "/"}
        argv = [program, "-c", "import gitlab_nightshift.stages, gitlab, pydantic, yaml"]
        try:
            done = subprocess.run(
                argv, user=PLAIN, group=PLAIN, extra_groups=[], env=env, cwd="/", check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return Path(program)
    return None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def python() -> Path:
    """For tests as a plain user."""
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    found = python_of_a_plain_user()
    return found or pytest.skip("no interpreter here that a plain user can start")


def give_away(shop: World, python: Path) -> None:
    """The job is a plain user's from now on."""
    for name in ("builds", "home", "tmp", "agent"):
        for path in (shop.folder / name, *(shop.folder / name).rglob("*")):
            os.lchown(path, PLAIN, PLAIN)
    shop.python, shop.user = python, PLAIN
    shop.agent.played_by(python)
    shop.env["PYTHONPATH"] += f":{LIBRARIES}"


def test_a_night_as_a_plain_user(open_folder: Path, python: Path) -> None:
    with (
        world(open_folder, REALLY, config=PROVING, layout="url") as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        give_away(shop, python)

        done = shop.nightshift("run", ANTHROPIC_BASE_URL=endpoint.url)

        assert (done.exit_status, done.stderr) == (0, "")
        assert endpoint.unscripted == []
        [mr] = shop.merge_requests
        assert done.last_line.startswith(f"✔ MR_CREATED · {mr.web_url} · ")
        assert [bead.name for bead in shop.agent.seen] == [f"{bead}-tests-1" for bead in REALLY]
        assert {path.stat().st_uid for path in shop.checkout.rglob("*")} == {PLAIN}
        assert places_of(SECRETS, shop.agent.texts) == []
        shop.assert_put_back()


LOOK = """
import os
def environ(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()
def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as file:
        for line in maps:
            if "[stack]" in line:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                file.seek(start)
                return file.read(end - start)
def token_in(read, pid):
    try:
        return b"glpat-" in read(pid)
    except OSError:
        return False
pid = os.getppid()
while pid > 1:
    for read in (environ, memory):
        print(token_in(read, pid))
    with open(f"/proc/{pid}/stat") as stat:
        pid = int(stat.read().rpartition(")")[2].split()[1])
"""
"""A program that looks for the token in its ancestors, and says of each whether it found it."""


@pytest.mark.parametrize("command", ["run", "control"])
def test_a_process_of_the_same_user_cannot_look_into_ours(
    open_folder: Path, python: Path, command: str
) -> None:
    """Not even with ``isolation: none``; the control shows that it could look into another."""
    look = open_folder / "look.py"
    look.write_text(LOOK)
    shown = f"{python} -IS {look} > {open_folder}/home/found; true"
    with world(open_folder, {"analyze": [sh(shown), *nothing()]}) as shop:
        give_away(shop, python)
        if command == "control":
            argv = [str(python), "-c", f"import os; os.system({shown!r})"]
            subprocess.run(argv, user=PLAIN, group=PLAIN, extra_groups=[], env=shop.env, check=True)
        else:
            assert shop.nightshift("run", NIGHTSHIFT_CATEGORY="docs").exit_status == 0
        found = (open_folder / "home/found").read_text().split()
    assert len(found) >= 6
    assert ("True" in found) == (command == "control")
