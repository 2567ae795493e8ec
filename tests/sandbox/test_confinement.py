"""How work is confined: the choice of a mode, and the accesses that it leaves open.

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
    """The paths of a job in a folder."""
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


def run_confined(chosen: ConfinementChoice, paths: ConfinementPaths) -> Any:
    """The report of a process that is confined like this."""
    data = {"code": CODE, "confined": chosen.describe(paths), "writes": paths.writable}
    config = next(f"{git}/config" for git in (paths.moved_git, paths.git) if Path(git).exists())
    with subprocess.Popen(["sleep", "600"]) as shell:  # may be inspected, unlike this process
        try:
            paths.probes["processes"] = [_started(shell.pid)]
            stage = {**data, "config": config, "probes": paths.probes}
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


def list_open(found: Any) -> set[str]:
    return {name for name, each in found.items() if each["open"]}


@NAMESPACES
def test_a_hidden_path_that_disappears_does_not_weaken_the_mode(
    site: tuple[ConfinementPaths, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job removes its folder between the check and the mount."""
    paths, folder = site
    build_prefix, other = confinement.build_prefix, folder / "home/other"
    other.mkdir()

    def build_early(bwrap_path: str, existing: ConfinementPaths) -> tuple[str, ...]:
        prefix = build_prefix(bwrap_path, existing)
        if other.exists():
            other.rmdir()
        return prefix

    monkeypatch.setattr(confinement, "build_prefix", build_early)
    chosen = real_choose("auto", replace(paths, hidden=(*paths.hidden, str(other))))
    assert (chosen.mode, chosen.reason) == (ConfinementMode.NAMESPACES, "")
    assert str(other) not in chosen.hidden_paths
    assert not chosen.has_lost_hidden_path()


@NAMESPACES
def test_namespaces_close_every_access(site: tuple[ConfinementPaths, Path]) -> None:
    paths, folder = site
    chosen = real_choose("auto", paths)
    assert chosen and (chosen.mode, chosen.reason) == (ConfinementMode.NAMESPACES, "")
    found, started, config, capabilities, no_new = run_confined(chosen, paths)
    kernel = {"change the kernel's settings"} if os.geteuid() == 0 else set[str]()
    assert list_open(found) <= kernel, "root's own namespaces are the machine's there"
    assert not any(each["open"] and each["promised"] for each in found.values())
    assert (started, config, no_new) == ([1], "another", "1")
    assert int(capabilities, 16) & ~0x8000001B == 0, "no right to mount, to trace, to look anywhere"
    assert (folder / "checkout/made").exists()
    assert (folder / "private/work/made").exists()


@NAMESPACES
@pytest.mark.parametrize("hidden", [True, False])
def test_only_opened_parts_of_home_are_visible(
    site: tuple[ConfinementPaths, Path], *, hidden: bool
) -> None:
    """In the control HOME is not hidden, and all of it can be read, but not written."""
    paths, folder = site
    home = folder / "home"
    for name in ("diary", "tools/compiler", "tools/.netrc"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("a word")
    tried_too = [str(home / name) for name in ("diary", ".bashrc", "tools/compiler")]
    paths.probes["read"] += [*tried_too, str(home / "tools/.netrc")]
    closed = (*paths.hidden, str(home / "tools/.netrc"))
    shown = {"home": str(home), "opened": (str(home / "tools"),)} if hidden else {}
    paths = replace(paths, hidden=closed, **shown)  # type: ignore[arg-type]
    found, *_ = run_confined(real_choose("auto", paths), paths)
    read = {path for path in tried_too if f"read {path}" in list_open(found)}
    assert read == ({tried_too[-1]} if hidden else {*tried_too})
    assert f"read {home}/tools/.netrc" not in list_open(found)
    assert f"write into {home}" not in list_open(found)


@LANDLOCK
def test_a_hidden_path_below_a_file_opens_nothing(
    site: tuple[ConfinementPaths, Path],
) -> None:
    """A worktree's ``.git`` is a file, and ``.git/config`` is hidden as everywhere."""
    paths, folder = site
    git = folder / "worktree.git"
    git.write_text("gitdir: /elsewhere\n")
    paths = replace(paths, hidden=(*paths.hidden, f"{git}/config"))
    found, started, *_ = run_confined(real_choose("landlock", paths), paths)
    assert (started, f"read {folder}/home/.netrc" in list_open(found)) == ([1], False)


@LANDLOCK
def test_landlock_allows_the_same_paths(site: tuple[ConfinementPaths, Path]) -> None:
    paths, folder = site
    (folder / "aside").mkdir()
    Path(paths.git).rename(paths.moved_git)
    paths.probes["read"] += paths.git_secrets
    chosen = real_choose("landlock", paths)
    assert chosen and (chosen.mode, chosen.prefix) == (ConfinementMode.LANDLOCK, ())
    found, started, config, capabilities, no_new = run_confined(chosen, paths)
    assert list_open(found) == set()
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
    file, paths = Path(f"/dev/shm/nightshift-test-{os.getpid()}"), site[0]
    confined = ConfinementChoice(ConfinementMode.LANDLOCK).describe(paths)
    data = {"code": SHARED, "confined": confined, "shared": shared, "file": str(file)}
    out, err = real_start(PLAIN_STAGE, data, {}).communicate()
    assert (out.decode().strip(), file.exists()) == (got, shared), err
    file.unlink(missing_ok=True)


@LANDLOCK
def test_scopes_close_processes_and_abstract_sockets(site: tuple[ConfinementPaths, Path]) -> None:
    paths, folder = site
    found, *_ = run_confined(ConfinementChoice(ConfinementMode.SCOPES), paths)
    assert not any(each["open"] and each["promised"] for each in found.values())
    closed = {name for name in found if name not in list_open(found)}
    assert {"the memory of P", "the environment of P", "the root of P"} <= closed
    assert {"signal P", "connect to an abstract socket"} <= closed
    assert f"read {folder}/home/.netrc" in list_open(found)


def test_without_confinement_every_access_works(site: tuple[ConfinementPaths, Path]) -> None:
    """The control. A kernel (Yama) may keep a plain user from other processes' memory."""
    paths, _ = site
    choice = ConfinementChoice(ConfinementMode.NONE, confinement.NO_ISOLATION)
    found, *_ = run_confined(choice, paths)
    assert not any(each["promised"] for each in found.values() if each["open"])
    closed = {name for name in found if name not in list_open(found)}
    if os.geteuid() == 0:
        assert closed == set()
    assert not {name for name in closed if not name.startswith(("the ", "change the kernel"))}


@each(("seconds", "status"), [(600, 1), (0.5, 0)])
def test_a_running_thread_prevents_confinement(
    site: tuple[ConfinementPaths, Path], seconds: float, status: int
) -> None:
    """Landlock would confine only one of them. The end of a short thread is awaited."""
    code = f"threading.Thread(target=time.sleep, args=({seconds},), daemon=True).start()"
    code = f"import threading; {code}"
    paths, _ = site
    data = {
        "code": f"{code}\n{CODE}",
        "confined": ConfinementChoice(ConfinementMode.LANDLOCK).describe(paths),
    }
    process = real_start(PLAIN_STAGE, {**data, "writes": [], "config": ""}, {})
    _, err = process.communicate()
    assert process.returncode == status, err
    assert (b"threads are running that cannot be confined" in err) is bool(status)


def test_the_strongest_mode_is_chosen(
    site: tuple[ConfinementPaths, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, folder = site
    trouble: dict[bool, str] = {True: "", False: ""}
    monkeypatch.setattr(bwrap, "find", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(confinement, "_find_failure", lambda command: trouble["--tmpfs" in command])

    def chosen(isolation: str = "auto", namespace_failure: str = "") -> tuple[ConfinementMode, str]:
        choice = real_choose(isolation, paths, namespace_failure=namespace_failure)
        assert choice
        return choice.mode, choice.reason

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
