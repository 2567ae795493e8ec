"""A path may disappear before it is hidden: another job on the machine removes its folder."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.sandbox import launch
from gitlab_nightshift.sandbox.launch import ProcessBoundary
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS, Launch
from gitlab_nightshift.sandbox.probe_run import Probe, run_probes
from gitlab_nightshift.sandbox.process import ProcessLimits, ProgramEnd, stream
from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.conftest import room
from tests.sandbox.tools import Room, open_folder

LAST = MOST_STARTS - 1


@pytest.fixture
def hiding(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A sandbox that hides a folder, which disappears before every start but the last."""
    with open_folder(Path("/opt")) as other, room(Tier.NAMESPACES) as ours:
        private = other / "private"
        machine = replace(ours.sandbox.machine, private=(str(private),))
        build, built = launch._build_launch, []

        def build_early(*arguments: object) -> Launch:
            private.mkdir()
            built.append(build(*arguments))  # type: ignore[arg-type]
            if len(built) <= LAST:
                private.rmdir()
            return built[-1]

        monkeypatch.setattr(launch, "_build_launch", build_early)
        yield replace(ours, sandbox=replace(ours.sandbox, machine=machine))
        assert len(built) == MOST_STARTS


def test_probes_are_started_again(hiding: Room) -> None:
    shell = Probe("use the shell", "usable", ("/bin/sh",))
    result = run_probes(hiding.sandbox, hiding.confinement, [shell], 60)
    assert [outcome.succeeded for outcome in result.outcomes] == [True], result.failure


def test_a_program_is_started_again(hiding: Room) -> None:
    out = io.BytesIO()
    assert run(hiding, ["/bin/sh", "-c", "echo here"], out, ProcessLimits()).exit_status == 0
    assert out.getvalue() == b"here\n"


def run(room: Room, argv: list[str], out: io.BytesIO, limits: ProcessLimits) -> ProgramEnd:
    return stream(
        argv,
        cwd=room.checkout,
        env=room.env(),
        stdin=b"",
        stdout=out,
        stderr=io.BytesIO(),
        limits=limits,
        on_line=lambda _: False,
        boundary=ProcessBoundary(room.sandbox, room.confinement),
    )


def test_a_program_that_timed_out_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing hidden path must not double its time limit."""
    build, starts = launch._build_launch, []

    def build_hanging(*arguments: object) -> Launch:
        hanging = build(*arguments)  # type: ignore[arg-type]
        starts.append(hanging)
        hanging.argv, hanging.hidden_paths = ["/bin/sleep", "60"], ("/opt/nightshift-missing",)
        return hanging

    monkeypatch.setattr(launch, "_build_launch", build_hanging)
    with room(Tier.NAMESPACES) as ours, pytest.raises(NightshiftError, match="it reported nothing"):
        run(ours, ["/bin/true"], io.BytesIO(), ProcessLimits(timeout_s=0.2))
    assert len(starts) == 1
