"""How work is confined: which way is chosen, and what a process then gets at.

The same attempts are made without any confinement, where each has to succeed.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.sandbox import bwrap, confinement
from gitlab_nightshift.sandbox.confinement import (
    ConfinementChoice,
    ConfinementMode,
    ConfinementPaths,
)
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.system.processes import list_ancestors
from tests.support.stages import PLAIN_STAGE, real_choose, real_start
from tests.support.tables import each

CODE = """
import dataclasses, json
from pathlib import Path
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.visible_system import look_at_system
started = []
if data["confined"]:
    own = self_confinement.confine(data["confined"], lambda: started.append(1))
else:
    none = self_confinement.ConfinementMode.NONE
    own = self_confinement.OwnConfinement(none, "", data["probes"], lambda _: None)
broker = own.complete(self_confinement.WorkNeeds(look_at_system()))
found = [dataclasses.asdict(each) for each in self_confinement.try_own_access(own, broker)]
for folder in data["writes"]:
    Path(folder, "made").write_text("x")
try:
    config = Path(data["config"]).read_text()
except OSError as error:
    config = error.strerror
lines = open("/proc/self/status").read().splitlines()
lists = dict(line.partition(":")[::2] for line in lines)
print(json.dumps([found, started, config, lists["CapEff"].strip(), lists["NoNewPrivs"].strip()]))
"""
NAMESPACES = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
LANDLOCK = pytest.mark.skipif(landlock.read_abi() < 6, reason="Landlock is missing or too old")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[ConfinementPaths, Path]]:
    """A job's folders, and a process of it, of which a test can see nothing else."""
    for name in ("checkout/.git", "checkout.tmp", "private/results", "private/work", "home"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("checkout.tmp/CI", "home/.netrc", "home/.bashrc", "private/results/a"):
        (tmp_path / name).write_text("secret")
    config = tmp_path / "checkout/.git/config"
    config.write_text("the real one")
    (tmp_path / "shown").write_text("another")
    hidden = [tmp_path / name for name in ("checkout.tmp", "home/.netrc", "private")]
    name = f"nightshift-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        probes = {
            "read": [str(path) for path in (*hidden[:2], tmp_path / "private/results")],
            "write": [str(tmp_path / "home"), str(tmp_path)],
            "change": [str(tmp_path / "home/.bashrc")],
            "same": [[str(config), config.stat().st_dev, config.stat().st_ino]],
            "processes": list_ancestors()[:1],
            "socket": name,
        }
        writable = tuple(str(tmp_path / each) for each in ("checkout", "private/work"))
        shown = ((str(config), str(tmp_path / "shown")),)
        git, state_folder = tmp_path / "checkout/.git", tmp_path / "aside/git"
        moved = (str(state_folder / "config"),)
        known = (str(git), str(state_folder), moved, probes)
        yield ConfinementPaths(writable, tuple(map(str, hidden)), shown, *known), tmp_path


def tried(chosen: ConfinementChoice, places: ConfinementPaths) -> Any:
    """What a process that is confined so reports."""
    data = {"code": CODE, "confined": chosen.describe(places), "writes": places.writable}
    config = next(f"{git}/config" for git in (places.moved_git, places.git) if Path(git).exists())
    with subprocess.Popen(["sleep", "600"]) as shell:  # may be looked into, unlike this process
        try:
            places.probes["processes"] = [_started(shell.pid)]
            stage = {**data, "config": config, "probes": places.probes}
            process = real_start(PLAIN_STAGE, stage, {"PATH": "/usr/bin"}, prefix=chosen.prefix)
            out, err = process.communicate()
        finally:
            shell.kill()
    assert process.returncode == 0, err.decode()
    found, *others = json.loads(out)
    return {each["name"].replace(str(shell.pid), "P"): each for each in found}, *others


def _started(pid: int) -> tuple[int, int]:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return pid, int(fields[19])


def opened(found: Any) -> set[str]:
    return {name for name, each in found.items() if each["open"]}


@NAMESPACES
def test_what_goes_away_before_it_is_hidden_makes_it_no_weaker(
    site: tuple[ConfinementPaths, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job removes its folder between the look and the mount."""
    places, folder = site
    build_prefix, other = confinement.build_prefix, folder / "home/other"
    other.mkdir()

    def build_early(found: str, there: ConfinementPaths) -> tuple[str, ...]:
        prefix = build_prefix(found, there)
        if other.exists():
            other.rmdir()
        return prefix

    monkeypatch.setattr(confinement, "build_prefix", build_early)
    chosen = real_choose("auto", replace(places, hidden=(*places.hidden, str(other))))
    assert (chosen.mode, chosen.reason) == (ConfinementMode.NAMESPACES, "")
    assert str(other) not in chosen.hidden_paths
    assert not chosen.has_lost_hidden_path()


@NAMESPACES
def test_in_namespaces_nothing_is_there(site: tuple[ConfinementPaths, Path]) -> None:
    places, folder = site
    chosen = real_choose("auto", places)
    assert chosen and (chosen.mode, chosen.reason) == (ConfinementMode.NAMESPACES, "")
    found, started, config, capabilities, no_new = tried(chosen, places)
    kernel = {"change the kernel's settings"} if os.geteuid() == 0 else set[str]()
    assert opened(found) <= kernel, "root's own namespaces are the machine's there"
    assert not any(each["open"] and each["promised"] for each in found.values())
    assert (started, config, no_new) == ([1], "another", "1")
    assert int(capabilities, 16) & ~0x8000001B == 0, "no right to mount, to trace, to look anywhere"
    assert (folder / "checkout/made").exists()
    assert (folder / "private/work/made").exists()


@NAMESPACES
@pytest.mark.parametrize("hidden", [True, False])
def test_of_home_only_what_is_opened_is_there(
    site: tuple[ConfinementPaths, Path], *, hidden: bool
) -> None:
    """Where HOME is not hidden (the control), all of it is read; never written."""
    places, folder = site
    home = folder / "home"
    for name in ("diary", "tools/compiler", "tools/.netrc"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("a word")
    tried_too = [str(home / name) for name in ("diary", ".bashrc", "tools/compiler")]
    places.probes["read"] += [*tried_too, str(home / "tools/.netrc")]
    closed = (*places.hidden, str(home / "tools/.netrc"))
    shown = {"home": str(home), "opened": (str(home / "tools"),)} if hidden else {}
    places = replace(places, hidden=closed, **shown)  # type: ignore[arg-type]
    found, *_ = tried(real_choose("auto", places), places)
    read = {path for path in tried_too if f"read {path}" in opened(found)}
    assert read == ({tried_too[-1]} if hidden else {*tried_too})
    assert f"read {home}/tools/.netrc" not in opened(found)
    assert f"write into {home}" not in opened(found)


@LANDLOCK
def test_around_what_cannot_be_in_a_file_nothing_is_listed(
    site: tuple[ConfinementPaths, Path],
) -> None:
    """A worktree's ``.git`` is a file, and ``.git/config`` is hidden as everywhere."""
    places, folder = site
    git = folder / "worktree.git"
    git.write_text("gitdir: /elsewhere\n")
    places = replace(places, hidden=(*places.hidden, f"{git}/config"))
    found, started, *_ = tried(real_choose("landlock", places), places)
    assert (started, f"read {folder}/home/.netrc" in opened(found)) == ([1], False)


@LANDLOCK
def test_landlock_allows_the_same_places(site: tuple[ConfinementPaths, Path]) -> None:
    places, folder = site
    (folder / "aside").mkdir()
    Path(places.git).rename(places.moved_git)
    places.probes["read"] += places.git_secrets
    chosen = real_choose("landlock", places)
    assert chosen and (chosen.mode, chosen.prefix) == (ConfinementMode.LANDLOCK, ())
    found, started, config, capabilities, no_new = tried(chosen, places)
    assert opened(found) == set()
    assert (started, config, no_new) == ([1], "Permission denied", "1")
    assert int(capabilities, 16) & ~0x800001FB == 0


SHARED = """
from pathlib import Path
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.tiers import SandboxUser
from gitlab_nightshift.sandbox.visible_system import look_at_system
own = self_confinement.confine(data["confined"], lambda: None)
user = SandboxUser(0, 0, -1) if data["shared"] else None
own.complete(self_confinement.WorkNeeds(look_at_system(), identity=user))
try:
    Path(data["file"]).write_text("x")
    print("written")
except PermissionError:
    print("refused")
"""


@LANDLOCK
@each(("shared", "got"), [(False, "refused"), (True, "written")])
def test_shared_memory_is_open_only_where_agents_need_it(
    site: tuple[ConfinementPaths, Path], *, shared: bool, got: str
) -> None:
    file, places = Path(f"/dev/shm/nightshift-test-{os.getpid()}"), site[0]
    confined = ConfinementChoice(ConfinementMode.LANDLOCK).describe(places)
    data = {"code": SHARED, "confined": confined, "shared": shared, "file": str(file)}
    out, err = real_start(PLAIN_STAGE, data, {}).communicate()
    assert (out.decode().strip(), file.exists()) == (got, shared), err
    file.unlink(missing_ok=True)


@LANDLOCK
def test_scopes_keep_it_from_processes_and_sockets(site: tuple[ConfinementPaths, Path]) -> None:
    places, folder = site
    found, *_ = tried(ConfinementChoice(ConfinementMode.SCOPES), places)
    assert not any(each["open"] and each["promised"] for each in found.values())
    closed = {name for name in found if name not in opened(found)}
    assert {"the memory of P", "the environment of P", "the root of P"} <= closed
    assert {"signal P", "connect to an abstract socket"} <= closed
    assert f"read {folder}/home/.netrc" in opened(found)


def test_without_any_it_gets_all_of_it(site: tuple[ConfinementPaths, Path]) -> None:
    """The control. A kernel (Yama) may keep a plain user from other processes' memory."""
    places, _ = site
    found, *_ = tried(ConfinementChoice(ConfinementMode.NONE, confinement.NO_ISOLATION), places)
    assert not any(each["promised"] for each in found.values() if each["open"])
    closed = {name for name in found if name not in opened(found)}
    if os.geteuid() == 0:
        assert closed == set()
    assert not {name for name in closed if not name.startswith(("the ", "change the kernel"))}


@each(("seconds", "status"), [(600, 1), (0.5, 0)])
def test_no_thread_is_forgotten(
    site: tuple[ConfinementPaths, Path], seconds: float, status: int
) -> None:
    """Landlock would confine one of them; of one that is about to end the end is awaited."""
    code = f"threading.Thread(target=time.sleep, args=({seconds},), daemon=True).start()"
    code = f"import threading; {code}"
    places, _ = site
    data = {
        "code": f"{code}\n{CODE}",
        "confined": ConfinementChoice(ConfinementMode.LANDLOCK).describe(places),
    }
    process = real_start(PLAIN_STAGE, {**data, "writes": [], "config": ""}, {})
    _, err = process.communicate()
    assert process.returncode == status, err
    assert (b"threads are running that cannot be confined" in err) is bool(status)


def test_the_strongest_way_is_chosen(
    site: tuple[ConfinementPaths, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    places, folder = site
    trouble: dict[bool, str] = {True: "", False: ""}
    monkeypatch.setattr(bwrap, "find", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(confinement, "_find_failure", lambda command: trouble["--tmpfs" in command])

    def chosen(isolation: str = "auto", namespace_failure: str = "") -> tuple[ConfinementMode, str]:
        made = real_choose(isolation, places, namespace_failure=namespace_failure)
        assert made
        return made.mode, made.reason

    monkeypatch.setattr(landlock, "read_abi", lambda: 6)
    assert chosen() == chosen("namespaces") == (ConfinementMode.NAMESPACES, "")
    assert chosen("uid") == (ConfinementMode.LANDLOCK, "isolation: uid has to move .git")
    assert chosen("none") == (ConfinementMode.NONE, "isolation: none")
    assert chosen(namespace_failure="no") == (ConfinementMode.LANDLOCK, "no")
    trouble[True] = "not in another"
    assert chosen() == (ConfinementMode.SCOPES, "not in another")
    trouble[False] = "not at all"
    assert chosen() == (ConfinementMode.LANDLOCK, "not in another")
    monkeypatch.setattr(landlock, "read_abi", lambda: 1)
    too_old = "not in another; Landlock is missing or too old"
    assert chosen() == (ConfinementMode.NONE, too_old)
    trouble[False] = ""
    assert chosen() == (ConfinementMode.NONE, too_old), "agents' namespaces alone are not enough"
    monkeypatch.setattr(bwrap, "find", lambda: None)
    assert chosen() == (
        ConfinementMode.NONE,
        "bwrap is not installed; Landlock is missing or too old",
    )
    (folder / "checkout/.git/config").unlink()
    (folder / "checkout/.git").rmdir()
    monkeypatch.setattr(landlock, "read_abi", lambda: 6)
    assert chosen() == (ConfinementMode.LANDLOCK, ".git is no folder, so it has to be moved")
