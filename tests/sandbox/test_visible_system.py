"""Agents see the system without its private paths, in Landlock rules and in mounts."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox import bwrap, credential_files, visible_system
from gitlab_nightshift.sandbox.tiers import Confinement, Tier
from gitlab_nightshift.sandbox.visible_system import (
    PrivatePaths,
    System,
    find_private,
    is_private,
    look_at_system,
    walk_system,
)
from tests.sandbox.tools import Room


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: etc, opt, usr/bin, usr/local, and bin as a link."""
    for folder in ("etc", "opt", "usr/bin", "usr/local"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    monkeypatch.setattr(visible_system, "SYSTEM_SETTINGS", str(tmp_path / "etc"))
    monkeypatch.setattr(visible_system, "LOCAL", str(tmp_path / "usr/local"))
    folders = tuple(str(tmp_path / name) for name in ("usr", "bin", "opt"))
    monkeypatch.setattr(visible_system, "SYSTEM_FOLDERS", folders)
    monkeypatch.setattr(
        visible_system, "PACKAGE_FOLDERS", (str(tmp_path / "usr/bin"), str(tmp_path / "bin"))
    )
    pip = {"pip": (f"{tmp_path}/etc/pip.conf",)}
    monkeypatch.setattr(credential_files, "TOOL_CREDENTIALS", pip)
    monkeypatch.setattr(credential_files, "TOOL_SETTINGS", {})
    return tmp_path


def below(machine: Path, paths: tuple[str, ...]) -> set[str]:
    return {path.removeprefix(f"{machine}/") for path in paths if path.startswith(str(machine))}


def test_without_anything_private_a_folder_is_one_rule(machine: Path) -> None:
    plant(machine / "opt/tool/bin/tool", 0o755)
    found = look_at_system()
    assert below(machine, found.readable) == {"etc", "opt", "usr"}
    assert (found.private, found.listable, found.unscanned) == ((), (), ())


def test_around_a_private_file_all_else_is_readable(machine: Path) -> None:
    """Landlock only adds: its rules name everything beside the file."""
    for name in ("opt/tool/bin/tool", "opt/tool/etc/settings", "opt/other/x", "usr/local/go/x"):
        plant(machine / name)
    plant(machine / "opt/tool/etc/key", 0o600)
    found = look_at_system()
    assert below(machine, found.private) == {"opt/tool/etc/key"}
    readable = {"etc", "usr", "opt/other", "opt/tool/bin", "opt/tool/etc/settings"}
    assert below(machine, found.readable) == readable
    assert below(machine, found.listable) == {"opt", "opt/tool", "opt/tool/etc"}


def test_above_a_private_folder_nothing_is_listed(machine: Path) -> None:
    """A rule for a folder's names is one for all folders below."""
    plant(machine / "opt/tool/x")
    plant(machine / "opt/closed/key").parent.chmod(0o700)
    found = look_at_system()
    assert below(machine, found.private) == {"opt/closed"}
    assert below(machine, found.listable) == set()
    assert "opt/tool" in below(machine, found.readable)


def test_private_settings_are_left_out(machine: Path) -> None:
    for name, mode in (("open/a", 0o644), ("mixed/b", 0o644), ("mixed/deep/key", 0o600)):
        plant(machine / "etc" / name, mode)
    plant(machine / "etc/mixed/deep/c")
    (machine / "etc/mixed/link").symlink_to("/root")
    (machine / "etc/closed").mkdir(mode=0o750)
    found = look_at_system()
    readable = {path for path in below(machine, found.readable) if path.startswith("etc")}
    assert readable == {"etc/open", "etc/mixed/b", "etc/mixed/deep/c"}
    assert below(machine, found.private) == {"etc/mixed/deep/key", "etc/closed"}


def test_a_secret_of_the_system_is_private_whatever_its_mode_says(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent of an earlier night may have opened it."""
    shadow = plant(machine / "etc/shadow")
    plant(machine / "etc/hosts")
    assert look_at_system().private == ()
    monkeypatch.setattr(visible_system, "SYSTEM_SECRETS", {str(shadow)})
    found = look_at_system()
    assert below(machine, found.private) == {"etc/shadow"}
    assert "etc/hosts" in below(machine, found.readable)


def test_a_credential_file_is_private_though_everybody_may_read_it(machine: Path) -> None:
    (machine / "etc/pip.conf").write_text("[global]\nindex-url = https://a:b@mirror/simple\n")
    found = look_at_system()
    assert below(machine, found.private) == {"etc/pip.conf"}
    assert found.credentials == {str(machine / "etc/pip.conf"): "pip"}


def test_paths_of_the_job_are_private_even_in_opt(machine: Path) -> None:
    """A HOME in ``/opt``, as some images have it, and a path that does not exist yet."""
    plant(machine / "opt/app/home/.npmrc")
    plant(machine / "opt/app/bin/tool")
    plant(machine / "opt/builds/shop/file")
    assert look_at_system().shows(machine / "opt/app/home/.npmrc"), "without being named"
    own = (machine / "opt/app/home", machine / "opt/builds/shop.nightshift")
    found = look_at_system(own)
    assert below(machine, found.private) == {"opt/app/home", "opt/builds/shop.nightshift"}
    allowed = {path for path in below(machine, found.readable) if path.startswith("opt")}
    assert allowed == {"opt/app/bin", "opt/builds/shop"}
    assert below(machine, found.job_paths) == below(machine, found.private)


def test_a_path_of_the_job_in_a_folder_that_cannot_be_listed(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root lists everything, so the refusal is made here."""
    closed = machine / "opt/closed"
    plant(closed / "home/x")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = look_at_system([closed / "home"])
    assert below(machine, found.private) == {"opt/closed/home"}
    assert not any(path.startswith("opt") for path in below(machine, found.readable))


@pytest.mark.parametrize("name", ["", "usr", "usr/local", "usr/bin", "bin"])
def test_a_home_that_contains_the_system_hides_nothing(machine: Path, name: str) -> None:
    plant(machine / "usr/bin/sh", 0o755)
    found = look_at_system([machine / name])
    assert (found.private, found.job_paths) == ((), ())


def test_a_file_among_the_packages_is_found_in_the_upper_levels(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as it is cheap. No tree there is hidden for its size, or no program would start."""
    plant(machine / "usr/bin/key", 0o600)
    for number in range(40):
        plant(machine / f"usr/bin/large/{number}/x")
    plant(machine / "usr/bin/large/1/key", 0o600)
    assert below(machine, look_at_system().private) == {"usr/bin/key", "usr/bin/large/1/key"}
    monkeypatch.setattr(visible_system, "MOST_PACKAGE_NAMES", 10)
    found = look_at_system()
    assert below(machine, found.private) == {"usr/bin/key"}
    assert found.unscanned == ()


def test_a_tree_that_is_too_large_is_hidden(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        plant(machine / f"opt/sdk/{number}/x")
    plant(machine / "opt/tool/x")
    monkeypatch.setattr(visible_system, "_MOST_NAMES", 60)
    found = look_at_system()
    assert below(machine, found.unscanned) == below(machine, found.private) == {"opt/sdk"}
    assert found.shows(machine / "opt/tool/x")
    assert not found.shows(machine / "opt/sdk/1/x")


def test_the_paths_that_an_agent_may_read(machine: Path) -> None:
    plant(machine / "usr/bin/sh", 0o755)
    plant(machine / "usr/bin/key", 0o600)
    found = look_at_system()
    assert found.shows(machine / "bin/sh")
    assert found.shows(machine / "usr/bin/sh")
    assert not found.shows(machine / "bin/key")
    assert not found.shows(machine / "usr/bin/key")
    assert not found.shows(machine / "home")


def test_mounts_cover_private_paths(tmp_path: Path) -> None:
    key, folder = plant(tmp_path / "key", 0o600), tmp_path / "closed"
    folder.mkdir(mode=0o700)
    machine = System((str(tmp_path),), (str(key), str(folder), str(tmp_path / "gone")))
    named = Confinement(tmp_path, (tmp_path / "checkout",), (folder / "tool",))
    words = bwrap.build_command("bwrap", named, machine)
    mask = words.index(str(key))
    assert words[mask - 2 : mask + 1] == ["--ro-bind", "/dev/null", str(key)]
    assert words[words.index(str(folder)) - 1] == "--tmpfs"
    assert words.index(str(folder)) < words.index(str(folder / "tool")), "what is named wins"
    assert str(tmp_path / "gone") not in words


def test_a_private_installation_that_is_named_can_be_run(any_room: Room) -> None:
    """As root under umask 077: hidden, until it is opened by name."""
    if any_room.sandbox.tier is Tier.UID:
        pytest.skip("this tier is passed over where another user cannot run the CLI")
    closed = any_room.root / "closed"
    tool = plant(closed / "bin/tool", 0o700)
    tool.write_text("#!/bin/sh\necho works\n")
    closed.chmod(0o700)
    machine = replace(any_room.sandbox.machine, private=(str(closed),))
    hidden = replace(any_room, sandbox=replace(any_room.sandbox, machine=machine))
    assert hidden.shell(str(tool)).exit_status != 0
    assert hidden.using(closed).shell(str(tool)).stdout == "works\n"


def test_the_jobs_paths_may_be_known_after_the_walk(machine: Path) -> None:
    plant(machine / "opt/key", 0o600)
    walked, own = walk_system(), (machine / "opt/home",)
    plant(machine / "opt/later", 0o600)
    seen = look_at_system(own, walked)
    assert {str(machine / "opt/key"), str(own[0])} <= set(seen.private)
    assert str(machine / "opt/later") in set(look_at_system(own).private) - set(seen.private)


ME, OTHER = 1000, 1001


def plant(path: Path, mode: int = 0o644) -> Path:
    """A file of a mode; the folders above are public."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    path.chmod(mode)
    return path


def found(top: Path, **limits: object) -> tuple[set[str], set[str]]:
    """The private and the unscanned paths below ``top``."""
    private = find_private([str(top)], **limits)  # type: ignore[arg-type]
    return tuple({path.removeprefix(f"{top}/") for path in each} for each in vars(private).values())  # type: ignore[return-value]


def test_private_files_are_found_at_any_depth(tmp_path: Path) -> None:
    plant(tmp_path / "tool/bin/tool", 0o755)
    plant(tmp_path / "tool/etc/deep/key", 0o600)
    plant(tmp_path / "tool/for-the-group", 0o640)
    plant(tmp_path / "tool/only-run", 0o711)
    plant(tmp_path / "top-key", 0o600)
    plant(tmp_path / "closed/inside").parent.chmod(0o700)
    plant(tmp_path / "to-pass/inside").parent.chmod(0o711)
    private = {"tool/etc/deep/key", "tool/for-the-group", "tool/only-run", "top-key"}
    assert found(tmp_path) == ({*private, "closed", "to-pass"}, set())


def test_sockets_and_pipes_are_private_and_links_ignored(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("/root")
        (tmp_path / "loop").symlink_to(".")
        assert found(tmp_path) == ({"pipe", "socket"}, set())


def test_a_hard_link_is_private_too(tmp_path: Path) -> None:
    key = plant(tmp_path / "a/key", 0o600)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/name").hardlink_to(key)
    assert found(tmp_path)[0] == {"a/key", "b/name"}


@pytest.mark.parametrize(
    ("mode", "owner", "private"),
    [
        (0o100600, ME, True),
        (0o100000, ME, True),  # its owner may change the mode
        (0o100600, OTHER, False),  # the kernel keeps it closed
        (0o100640, OTHER, True),  # a group of mine, or an access control list
        (0o100644, ME, False),
        (0o104711, ME, True),
        (0o040755, ME, False),
        (0o042775, OTHER, False),
        (0o042770, OTHER, True),
        (0o040751, ME, True),
        (0o040754, ME, True),
        (0o140777, OTHER, True),
    ],
)
def test_private_is_readable_by_us_but_not_by_everybody(
    mode: int, owner: int, private: bool
) -> None:
    status = os.stat_result((mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))
    assert is_private(status, ME) is private


def test_a_tree_that_is_too_large_stays_unscanned(tmp_path: Path) -> None:
    """Small trees are scanned nevertheless."""
    for number in range(60):
        plant(tmp_path / f"large/{number}/file")
    plant(tmp_path / "small/a/b/key", 0o600)
    assert found(tmp_path, limit=80) == ({"small/a/b/key"}, {"large"})
    assert found(tmp_path, limit=400) == ({"small/a/b/key"}, set())


def test_one_huge_folder_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(300):
        plant(tmp_path / f"flat/{number}")
    assert found(tmp_path, limit=100) == (set(), {"flat"})
    assert find_private([str(tmp_path / "flat")], limit=100) == PrivatePaths(
        (), (f"{tmp_path}/flat",)
    )


def test_a_needed_tree_is_scanned_completely(tmp_path: Path) -> None:
    for number in range(60):
        plant(tmp_path / f"python/{number}/file")
    plant(tmp_path / "python/lib/key", 0o600)
    needed = [str(tmp_path / "python/lib")]
    assert found(tmp_path, limit=20, unlimited=needed) == ({"python/lib/key"}, set())


def test_after_the_deadline_nothing_is_scanned(tmp_path: Path) -> None:
    plant(tmp_path / "a/key", 0o600)
    assert found(tmp_path, longest_s=-1.0) == (set(), {str(tmp_path)})


def test_a_tree_of_private_files_is_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible_system, "_MOST_IN_A_TREE", 3)
    for number in range(5):
        plant(tmp_path / f"sdk/{number}/key", 0o600)
    for number in range(3):
        plant(tmp_path / f"tool/{number}", 0o600)
    assert found(tmp_path)[0] == {"sdk", "tool/0", "tool/1", "tool/2"}


def test_skipped_paths_are_not_scanned(tmp_path: Path) -> None:
    plant(tmp_path / "lib/key", 0o600)
    plant(tmp_path / "src/key", 0o600)
    assert found(tmp_path, skip=[str(tmp_path / "lib")])[0] == {"src/key"}
