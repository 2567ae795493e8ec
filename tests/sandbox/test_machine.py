"""The part of the machine that agents see, and the choice of a tier."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox import bwrap, tier_choice, uid_tier
from gitlab_nightshift.sandbox.inside import landlock
from gitlab_nightshift.sandbox.tiers import Confinement, SandboxUser, ServicePort, Tier
from gitlab_nightshift.sandbox.uid_tier import release_user, reserve_user
from gitlab_nightshift.sandbox.visible_system import System
from tests.sandbox import conftest
from tests.sandbox.conftest import need, room
from tests.sandbox.tools import Room, open_folder


def test_a_user_is_reserved_once(root: None) -> None:
    """The lock lies where no agent can create it first."""
    first, second = reserve_user(), reserve_user()
    assert first and second and first.uid != second.uid
    release_user(first)
    third = reserve_user()
    assert third and third.uid == first.uid
    for identity in (second, third):
        release_user(identity)


def test_a_lock_folder_that_others_may_write_is_refused(
    root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitlab-nightshift").mkdir(0o777)
    (tmp_path / "gitlab-nightshift").chmod(0o777)
    monkeypatch.setattr(uid_tier, "LOCK_PARENTS", (tmp_path,))
    assert reserve_user() is None


def test_private_settings_cannot_be_read(any_room: Room) -> None:
    files = [p for p in any_room.sandbox.machine.private if Path(p).is_file()]
    if not files:
        pytest.skip("no private settings here")
    done = any_room.shell("cat " + " ".join(f"'{p}'" for p in files) + "; cat /etc/passwd")
    assert done.stdout.startswith("root:")


def test_inner_mounts_come_last() -> None:
    """A read-only folder in the checkout stays so; the checkout may lie below /tmp."""
    confinement = Confinement(
        Path("/tmp/x/shop"),
        (Path("/tmp/x/shop"), Path("/tmp/y")),
        (Path("/usr"), Path("/tmp")),
        (ServicePort(8080, Path("/run/socket")),),
    )
    words = bwrap.build_command("bwrap", confinement, System(()))
    inner = words.index("/tmp/x/shop")
    assert words[inner - 1] == "--bind"
    assert words.index("--tmpfs") < inner
    assert words[-3:] == ["--chdir", "/tmp/x/shop", "--"]
    assert words[-6:-3] == ["--bind", "/run/socket", "/run/nightshift/8080"]


def test_a_read_only_folder_inside_the_checkout() -> None:
    """Only a mount can do that: Landlock's rules only add."""
    need(Tier.NAMESPACES)
    with room(Tier.NAMESPACES) as opened:
        opened.write("node_modules/a", "before")
        done = opened.using(opened.checkout / "node_modules").shell(
            "echo x > ok; echo x > node_modules/a; cat node_modules/a"
        )
        assert done.stdout == "before"
        assert "Read-only" in done.stderr


def test_a_requested_tier_that_does_not_work_is_a_config_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap, "find", lambda: None)
    with pytest.raises(NightshiftError, match="bwrap is not installed") as caught:
        tier_choice.choose("namespaces", tmp_path)
    assert caught.value.code is Code.CONFIG


def test_without_any_tier_the_run_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "find", lambda: None)
    monkeypatch.setattr(uid_tier, "reserve_user", lambda: None)
    monkeypatch.setattr(landlock, "read_abi", lambda: 0)
    with pytest.raises(NightshiftError) as caught:
        tier_choice.choose("auto", tmp_path)
    assert caught.value.code is Code.POLICY_DENY
    for word in ("namespaces: bwrap", "uid: ", "landlock: this kernel", "isolation: none"):
        assert word in caught.value.message
    assert tier_choice.choose("none", tmp_path).tier is Tier.NONE


def test_auto_reports_the_tiers_that_it_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.LANDLOCK)
    monkeypatch.setattr(bwrap, "find", lambda: None)
    monkeypatch.setattr(uid_tier, "reserve_user", lambda: None)
    with open_folder() as folder:
        sandbox = tier_choice.choose("auto", folder)
    assert sandbox.tier is Tier.LANDLOCK
    assert [tier for tier, _ in sandbox.passed_over] == [Tier.NAMESPACES, Tier.UID]


def test_a_bwrap_that_does_nothing_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe, not a version check: this one runs the command without any namespace."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(bwrap, "find", lambda: str(fake))
    with pytest.raises(NightshiftError, match="namespaces does not work here"):
        tier_choice.choose("namespaces", tmp_path)


def test_a_program_that_cannot_be_run_by_another_user(root: None) -> None:
    need(Tier.UID)
    with open_folder() as folder:
        (folder / "home").mkdir(mode=0o700)
        tool = folder / "home/tool"
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        with pytest.raises(NightshiftError, match=r"lies behind .*/home, which only its owner"):
            tier_choice.choose("uid", folder, [tool])
        assert uid_tier.list_unreachable([tool, Path("/bin/sh")]) == [
            f"{tool} lies behind {folder}/home, which only its owner may enter"
        ]


def test_a_folder_that_another_user_cannot_reach(root: None) -> None:
    need(Tier.UID)
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(NightshiftError, match="may only be entered by its owner"):
            tier_choice.choose("uid", closed)


def test_a_checkout_that_another_user_cannot_reach_or_own(
    root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(Tier.UID)
    with open_folder() as folder:
        shop = folder / "builds/shop"
        shop.mkdir(parents=True)
        sandbox = tier_choice.choose("uid", folder, checkout=shop)
        assert sandbox.identity
        uid_tier.release_user(sandbox.identity)
        assert {path.name for path in shop.parent.iterdir()} == {"shop"}
        shop.parent.chmod(0o750)
        with pytest.raises(NightshiftError, match="/builds may only be entered by its owner"):
            tier_choice.choose("uid", folder, checkout=shop)
        shop.parent.chmod(0o755)

        def refused(path: Path, *_: int) -> None:
            raise PermissionError(1, "Operation not permitted", str(path))

        monkeypatch.setattr(os, "chown", refused)
        with pytest.raises(NightshiftError, match="Operation not permitted"):
            tier_choice.choose("uid", folder, checkout=shop)


def test_without_landlock_world_writable_folders_are_refused(
    root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agents' user could replace the real .git."""
    need(Tier.UID)
    monkeypatch.setattr(landlock, "read_abi", lambda: 0)
    with open_folder() as folder:
        shop = folder / "builds/shop"
        shop.mkdir(parents=True)
        assert uid_tier.find_exposed_folder(shop.parent) is None
        for mode in (0o777, 0o1777):
            shop.parent.chmod(mode)
            with pytest.raises(NightshiftError, match="/builds may be written by everybody"):
                tier_choice.choose("uid", folder, checkout=shop)
        shop.parent.chmod(0o755)
        folder.chmod(0o1777)
        sandbox = tier_choice.choose("uid", shop, checkout=shop)
        assert (sandbox.features.landlock, sandbox.guarantees.files.held) == (0, False)
        assert sandbox.identity
        uid_tier.release_user(sandbox.identity)


def test_a_trial_leaves_nothing_behind(any_room: Room) -> None:
    before = _list_names(any_room)
    found = tier_choice.choose(any_room.sandbox.tier, any_room.root)
    if found.identity:
        uid_tier.release_user(found.identity)
    assert _list_names(any_room) == before


def _list_names(room: Room) -> list[set[str]]:
    return [
        {path.name for path in folder.iterdir()} for folder in (room.root, Path("/proc/self/fd"))
    ]


def test_reasons_are_one_line() -> None:
    tiers = conftest.try_tiers().values()
    assert all(
        "\n" not in one.reason for one in tiers if isinstance(one, tier_choice.UnavailableTier)
    )
    identity = SandboxUser(1, 1, 5)
    assert replace(identity, lock=6) == identity
