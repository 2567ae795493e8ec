"""A whole night as a plain user, where the tests run as root.

The real CLI as another user is in ``nights_agents/test_sandboxed.py``.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.sandbox import tools
from tests.support.agent import plays, sh
from tests.support.sandboxes import MORE, ONE_OPERATOR, scripted, with_agent
from tests.support.shop import GOOD
from tests.support.trees import places_of
from tests.support.world import PROVING, SECRETS, World, world

PLAIN = 1001
NAMELESS = 54_321


def python_of_a_plain_user(folder: Path) -> Path | None:
    """An interpreter that another user can start, in an environment with this project's libraries
    that is made in a folder."""
    program = _find_program()
    return program and make_environment(folder / "plain", program)


@cache
def _find_program() -> Path | None:
    with tools.open_folder() as folder:
        for number, name in enumerate(
            (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
        ):
            program = Path(name).resolve()
            python = make_environment(folder / str(number), program)
            argv = (python, "-c", "import gitlab_nightshift.run.planning, gitlab, pydantic, yaml")
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                as_plain_user(argv, {"HOME": "/"})
                return program
    return None


def as_plain_user(argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
    subprocess.run(argv, user=PLAIN, group=PLAIN, extra_groups=[], env=env, cwd="/", check=True)


def make_environment(folder: Path, program: Path) -> Path:
    libraries = Path(sysconfig.get_path("purelib"))
    packages = folder / "lib" / libraries.parent.name / libraries.name
    for place, target in ((folder / "bin/python3", program), (packages, libraries)):
        place.parent.mkdir(parents=True)
        place.symlink_to(target)
    (folder / "pyvenv.cfg").write_text(f"home = {program.parent}\n")
    folder.chmod(0o755)
    return folder / "bin/python3"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="night-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """For tests as a plain user."""
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    with tools.open_folder() as folder:
        found = python_of_a_plain_user(folder)
        yield found or pytest.skip("no interpreter here that a plain user can start")


def give_away(shop: World, python: Path, *names: str, uid: int = PLAIN) -> None:
    """These folders are a plain user's from now on."""
    for name in names:
        for path in (shop.folder / name, *(shop.folder / name).rglob("*")):
            os.lchown(path, uid, uid)
    shop.agent.played_by(python)


@pytest.mark.parametrize("home", [None, "", "/nowhere"])
def test_a_night_without_a_home_of_a_user_without_a_name(
    open_folder: Path, python: Path, home: str | None
) -> None:
    """As a container's ``runAsUser`` makes them."""
    with world(open_folder, GOOD, config=PROVING, layout="url") as shop:
        give_away(shop, python, "builds", "home", "tmp", "agent", uid=NAMELESS)
        shop.python, shop.user = python, NAMELESS
        shop.env.pop("HOME")
        shop.env |= {} if home is None else {"HOME": home}
        for command in ("doctor", "check"):
            done = shop.nightshift(command)
            assert "Traceback" not in done.stdout + done.stderr
            assert "E_INTERNAL" not in done.stdout + done.stderr
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert len(shop.merge_requests) == 1
        shop.assert_restored()


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


def test_a_night_as_a_plain_user(open_folder: Path, python: Path) -> None:
    """Its agent cannot look into our processes, not even with ``isolation: none``; the control
    shows that it could look into another of the same user."""
    look = open_folder / "look.py"
    look.write_text(LOOK)
    shown = f"{python} -IS {look} > {open_folder}/home/found; true"
    scripts = plays(GOOD, {"analyze": [sh(shown), *GOOD["analyze"]]})
    with world(open_folder, scripts, config=PROVING, layout="url") as shop:
        give_away(shop, python, "builds", "home", "tmp", "agent")
        shop.python, shop.user = python, PLAIN
        done = shop.nightshift("run")

        assert (done.exit_status, done.stderr) == (0, "")
        [mr] = shop.merge_requests
        assert done.last_line.startswith(f"✔ MR_CREATED · {mr.web_url} · ")
        assert shop.agent.names == [f"{bead}-tests-1" for bead in GOOD]
        assert {path.stat().st_uid for path in shop.checkout.rglob("*")} == {PLAIN}
        assert places_of(SECRETS, shop.agent.texts) == []
        shop.assert_restored()
        assert set(found_in(open_folder)) == {"False"}
        as_plain_user([python, "-c", f"import os; os.system({shown!r})"], shop.env)
        assert "True" in found_in(open_folder)


def found_in(folder: Path) -> list[str]:
    found = (folder / "home/found").read_text().split()
    assert len(found) >= 6
    return found


BECOME_PLAIN = """
import os, sys
os.setgroups([])
os.setgid({user})
os.setuid({user})
sys.executable = {python!r}
sys.base_prefix = {prefix!r}
"""
"""A start that forks has imported all that it needs; what it starts is this user's Python."""


def open_to_all(shop: World, python: Path) -> None:
    """As the Docker executor checks out: root's, under umask 0000; the image has another user."""
    for path in (shop.checkout.parent, *shop.checkout.parent.rglob("*")):
        path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))
    give_away(shop, python, "home", "tmp", "agent")
    shop.patch = BECOME_PLAIN.format(
        user=PLAIN, python=str(python), prefix=str(python.resolve().parents[1])
    )
    shop.look()


def test_a_night_in_a_tree_of_root_that_everybody_may_write(
    open_folder: Path, python: Path
) -> None:
    """The agent's git works in it; what only root could restore is one quiet line."""
    shown = "git log --oneline -1 && git status --porcelain && git diff --stat"
    scripts = plays(GOOD, {"implement": [*GOOD["implement"], sh(shown)]})
    with world(open_folder, scripts, config=PROVING) as shop:
        shop.agent.ask_git()
        open_to_all(shop, python)
        done = shop.nightshift("run")
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert "warning" not in done.log
        [line] = [line for line in done.log.splitlines() if "put back" in line]
        assert (
            line == "  put back; paths with a new owner or time, which only root could restore: 2"
        )
        assert shop.agent.seen[0].git_status == "", "no dubious ownership"
        assert shop.bundle["proposal"]["notes"] == [], "nobody is said to have done that"
        shop.assert_restored()


def test_publish_in_a_folder_that_a_runner_has_unpacked(open_folder: Path, python: Path) -> None:
    """Artifacts are root's then, with the modes of the job before: nobody else can remove them."""
    with world(open_folder, GOOD) as shop:
        open_to_all(shop, python)
        for stage in (["plan"], ["work"], ["publish"]):
            output = shop.checkout / "nightshift"
            for path in (output, *output.rglob("*")) if output.exists() else ():
                os.lchown(path, 0, 0)
                path.chmod(0o755 if path.is_dir() else 0o644)
            done = shop.nightshift(*stage)
            assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert len(shop.merge_requests) == 1
        assert shop.product("published.json")["outcome"] == "MR_CREATED"
        assert {"plan.json", "bundle", "result.json"} <= {p.name for p in output.iterdir()}


def test_another_users_git_is_dubious_without_our_word_for_it(
    open_folder: Path, python: Path
) -> None:
    """The control of the agent's git."""
    with world(open_folder) as shop:
        open_to_all(shop, python)
        with pytest.raises(subprocess.CalledProcessError):
            as_plain_user(["git", "-C", shop.checkout, "status"], {"HOME": "/nonexistent"})


def test_landlock_of_a_plain_user_in_that_tree(open_folder: Path, python: Path) -> None:
    """In namespaces: ``test_own_confinement.py``."""
    with world(open_folder, files=ONE_OPERATOR, config=PROVING) as shop:
        implement = f"git status --porcelain && git diff HEAD && printf '{MORE}' >> test_shop.py"
        path = with_agent(shop, "scripted", scripted(f"{implement} || exit 3"))
        open_to_all(shop, python)
        done = shop.nightshift("run", NIGHTSHIFT_ISOLATION="landlock", PATH=path)
        assert (done.exit_status, done.stderr) == (0, ""), done.log
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert shop.result["isolation"].startswith("landlock (")
        assert "a new owner or time" in done.log
        shop.assert_restored()
