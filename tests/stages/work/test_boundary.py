"""What a process behind the boundary may read, and where it looks for programs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox import self_confinement
from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.proof import judge_guarantees, refuse_weaker
from gitlab_nightshift.sandbox.self_confinement import OwnConfinement, weaken_sandbox
from gitlab_nightshift.sandbox.tier_choice import UnavailableTier, choose
from gitlab_nightshift.sandbox.tiers import Guarantee, Tier
from gitlab_nightshift.sandbox.visible_system import System
from gitlab_nightshift.stages.work.boundary import (
    Boundary,
    SandboxUnavailable,
    _describe_hidden_paths,
    choose_sandbox,
)


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


def test_the_search_path_has_only_readable_folders(boundary: Boundary, tmp_path: Path) -> None:
    """Links of the system stay; one that leads into a tool folder may not exist inside."""
    folders = ("bin", "usr/local/bin", "usr/local/mine", "home/bin", "tools/current/bin", "nowhere")
    path = boundary.filter_search_path(":".join(str(tmp_path / folder) for folder in folders))
    readable = ("bin", "usr/local/bin", "tools/17/bin")
    assert path.split(":") == [str(tmp_path / folder) for folder in readable]
    assert boundary.is_readable(tmp_path / "bin/sh")
    assert not boundary.is_readable(tmp_path / "home/bin/x")


def private(*paths: str, opened: tuple[str, ...] = (), cut: tuple[str, ...] = ()) -> Boundary:
    """A boundary on a machine with these private paths."""
    none = choose(Tier.NONE, Path("/nowhere"))
    machine = System(("/etc", "/opt"), paths, credentials={"/etc/pip.conf": "pip"}, unscanned=cut)
    sandbox = Sandbox(Tier.LANDLOCK, none.guarantees, none.features, machine)
    return Boundary(sandbox, Path("/nowhere"), tuple(map(Path, opened)))


def test_git_does_not_look_for_settings_that_are_hidden() -> None:
    """git would fail at once."""
    assert private("/etc/gitconfig").build_git_env() == {"GIT_CONFIG_NOSYSTEM": "1"}
    assert private("/etc/gitconfig", opened=("/etc/gitconfig",)).build_git_env() == {}
    assert private("/etc/shadow").build_git_env() == {}


def test_a_private_path_is_readable_if_it_is_named() -> None:
    boundary = private("/opt/claude", "/opt/key", "/etc/pip.conf", opened=("/opt/claude",))
    assert boundary.is_readable(Path("/opt/claude/bin/claude"))
    assert not boundary.is_readable(Path("/opt/key"))
    assert boundary.is_readable(Path("/opt/other"))


def test_hidden_paths_that_a_build_may_need_are_logged() -> None:
    """But not those that every system hides, nor those that are readable because they are named."""
    hidden = ("/etc/pip.conf", "/etc/shadow", "/opt/claude", "/opt/key", "/opt/sdk")
    boundary = private(*hidden, opened=("/opt/claude",), cut=("/opt/sdk",))
    notes = list(_describe_hidden_paths(boundary.sandbox.machine, boundary.read_only))
    assert [note.text.strip() for note in notes] == [
        "/opt/sdk is hidden from agents: it is too large to search for private files. To expose it,"
        " add it to agent_paths.",
        "Hidden from agents: /etc/pip.conf (pip), /opt/key. To expose one, add it to agent_paths.",
    ]
    assert [note.warning for note in notes] == [True, False]


def confined(mode: ConfinementMode) -> OwnConfinement:
    """The record of a process that is confined in this way."""
    return OwnConfinement(mode, "no bwrap", {}, lambda _: None)


def test_a_process_in_namespaces_does_not_choose_a_weaker_tier() -> None:
    """It is started again without namespaces, before it has done anything."""
    inside = confined(ConfinementMode.NAMESPACES)
    landlock = private().sandbox
    namespaces = replace(landlock, tier=Tier.NAMESPACES)
    passed = replace(landlock, passed_over=((Tier.NAMESPACES, "not from here"),))
    assert choose_sandbox(inside, lambda unavailable: namespaces) is namespaces
    with pytest.raises(SandboxUnavailable, match="not from here"):
        choose_sandbox(inside, lambda unavailable: passed)

    def none(unavailable: Sequence[UnavailableTier]) -> Sandbox:
        raise NightshiftError(Code.POLICY_DENY, "nothing works")

    with pytest.raises(SandboxUnavailable, match="nothing works"):
        choose_sandbox(inside, none)

    def chosen(unavailable: Sequence[UnavailableTier]) -> Sandbox:
        assert [missing.tier for missing in unavailable] == [Tier.NAMESPACES], (
            "it would have to mount"
        )
        return landlock

    assert choose_sandbox(confined(ConfinementMode.LANDLOCK), chosen) is landlock


def test_without_own_confinement_secrets_hold_only_partly() -> None:
    """That has to be accepted by name, like for any guarantee; without isolation nothing does."""
    uid = choose(Tier.NONE, Path("/nowhere"))
    strong = replace(uid, tier=Tier.UID, guarantees=replace(uid.guarantees, **HELD))
    assert judge_guarantees(strong.guarantees)[1].state == "held"
    weak = weaken_sandbox(strong, confined(ConfinementMode.NONE))
    strengths = judge_guarantees(weak.guarantees)
    assert [each.name for each in strengths if each.state == "partial"] == ["secrets"]
    with pytest.raises(NightshiftError, match=r"not confined \(no bwrap\).*accept_partial: \[secr"):
        refuse_weaker(weak.tier, strengths, ())
    refuse_weaker(weak.tier, strengths, ("secrets",))
    for mode in (ConfinementMode.NAMESPACES, ConfinementMode.LANDLOCK, ConfinementMode.SCOPES):
        assert weaken_sandbox(strong, confined(mode)) is strong
    assert weaken_sandbox(uid, confined(ConfinementMode.NONE)) is uid


def test_if_the_kernel_cannot_confine_other_processes_secrets_hold_only_partly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However work itself is confined: others read what it has written."""
    uid = choose(Tier.NONE, Path("/nowhere"))
    strong = replace(uid, tier=Tier.NAMESPACES, guarantees=replace(uid.guarantees, **HELD))
    monkeypatch.setattr(self_confinement, "list_unenforceable", lambda: ("files",))
    weak = choose_sandbox(confined(ConfinementMode.NAMESPACES), lambda unavailable: strong)
    with pytest.raises(NightshiftError, match=r"cannot keep files from it.*accept_partial: \[secr"):
        refuse_weaker(weak.tier, judge_guarantees(weak.guarantees), ())


HELD: Any = {name: Guarantee("held") for name in ("files", "secrets", "network", "lifetime")}
