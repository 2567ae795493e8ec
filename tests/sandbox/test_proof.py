"""The proof, in every tier and in every place that works here, and the meaning of its findings.

Places: this process as it is; a plain user; conditions like Docker's, as root and as a user.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary
from gitlab_nightshift.sandbox import proof as proofs
from gitlab_nightshift.sandbox.probe_run import ProbeOutcome
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import (
    BoundaryProof,
    ProbeFinding,
    judge_guarantees,
    prove,
    refuse_weaker,
)
from gitlab_nightshift.sandbox.tier_choice import build_guarantees, choose
from gitlab_nightshift.sandbox.tiers import (
    DIRECT_NETWORK,
    ENVIRONMENTS,
    FILE_MODES,
    GATEWAY,
    OUTLIVING,
    OWN_CODE,
    ROWS,
    SERVICES,
    WRITING,
    Confinement,
    Features,
    ProofRow,
    Tier,
)
from tests.sandbox.tools import Room, open_folder

HERE = Path(__file__).parent
PLAIN_USER = 1001
DOCKER = [str(HERE / "docker_like.py")]
PLACES: dict[str, list[str]] = {
    "here": [],
    # by a shell: what setpriv runs itself still has root's rights to look for it
    "user": [
        *("setpriv", "--reuid", "1001", "--regid", "1001", "--clear-groups"),
        *("sh", "-c", 'exec "$0" "$@"'),
    ],
    "docker root": [*DOCKER, "--"],
    "docker user": [*DOCKER, "--user", "1001", "--"],
}
EXPECTED = {
    "docker root": (Tier.UID, {Tier.NAMESPACES}),
    "docker user": (Tier.LANDLOCK, {Tier.NAMESPACES, Tier.UID}),
}


@cache
def public_python() -> str | None:
    """A Python 3.11 that any user may run."""
    wanted = "import sys; sys.exit(sys.version_info < (3, 11))"
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [*PLACES["user"], path, "-c", wanted]
        if (
            Path(path).exists()
            and subprocess.run(command, capture_output=True, check=False).returncode == 0
        ):
            return path
    return None


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    if request.param != "here":
        if os.geteuid() != 0:
            pytest.skip("needs root")
        if public_python() is None:
            pytest.skip("no Python that another user may run")
    return str(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as opened:
        yield opened


def drive(place: str, folder: Path, *tiers: str) -> dict[str, Any]:
    python = sys.executable if place == "here" else public_python()
    assert python is not None
    if "user" in place:
        os.chown(folder, PLAIN_USER, PLAIN_USER)
    words = PLACES[place]
    command = [python, *words] if words[:1] == DOCKER else words
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SECRET_TOKEN": "glpat-secret"}
    done = subprocess.run(
        [*command, python, str(HERE / "drive.py"), str(folder), *tiers],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_no_tier_has_a_hole_in_any_place(place: str, folder: Path) -> None:
    """And ``auto`` takes the strongest tier that works."""
    results = drive(place, folder, "auto", *(tier for tier in Tier if tier is not Tier.NONE))
    auto = results.pop("auto")
    missing = {tier for tier, result in results.items() if "missing" in result}
    for tier in results.keys() - missing:
        result = results[tier]
        assert (result["trouble"], result["holes"]) == ("", []), tier
        assert result["open"] == []
        assert len(result["held"]) > 40
        assert 10 <= len(result["rows"]) <= len(ROWS)
        states = dict(line.split(": ")[:2] for line in result["promises"])
        assert states == dict.fromkeys(("files", "secrets", "network", "lifetime"), "held")
    if place in EXPECTED:
        assert (auto["tier"], missing) == EXPECTED[place]


def test_without_a_boundary_every_attempt_succeeds(folder: Path) -> None:
    """Else an attempt could fail for another reason than the boundary."""
    sandbox = choose(Tier.NONE, folder)
    scratch, hidden = folder / "scratch", folder / "private"
    scratch.mkdir()
    hidden.mkdir(mode=0o700)
    (hidden / "token").write_text("glpat-secret")
    targets = ProbeTargets((hidden, hidden / "token"), (folder, hidden))
    proof = prove(sandbox, Confinement(scratch, (scratch,)), targets)
    assert proof.failure == ""
    held = {f.name for f in proof.findings if not f.open and "ancestor" not in f.name}
    assert held <= CANNOT_BE_SHOWN, held - CANNOT_BE_SHOWN
    assert proof.holes == ()  # nothing was promised
    assert (folder / "scratch").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["private", "scratch"]


CANNOT_BE_SHOWN = {
    "inherit descriptors",  # Python hands none on
    "connect to the network",  # where there is no network
    "connect by IPv6",
    "send a datagram to the network",
    "reach it by TCP fast open",  # where the system has it switched off
    *("make a raw socket", "make a packet socket"),  # not as a plain user
    *("make a SCTP socket", "make a MPTCP socket", "make a crypto socket", "make a vsock socket"),
    *("write to /proc/sys/kernel/core_pattern", "write to /proc/sysrq-trigger"),
    *("write to /etc/passwd", "write to /dev/mem", "read /etc/shadow"),
    "make a user namespace",
}


def test_a_broken_promise_is_a_hole_with_a_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tier none with the guarantees of the landlock tier."""
    monkeypatch.setattr(proofs, "ENDING_S", 0.0)
    none = choose(Tier.NONE, folder)
    promised = build_guarantees(Tier.LANDLOCK, Features(landlock=6, notify=True))
    scratch = folder / "scratch"
    scratch.mkdir()
    proof = prove(
        replace(none, guarantees=promised), Confinement(scratch, (scratch,)), ProbeTargets()
    )
    assert not proof.held
    assert any(hole.startswith("read the environment of this process (") for hole in proof.holes)
    assert any(hole.startswith("outlive the bead (") for hole in proof.holes)
    assert GuaranteeState.BROKEN in {row.state for row in proof.rows}


def test_a_daemon_that_cannot_start_counts_as_not_tried(any_room: Room) -> None:
    """It has nowhere to hold its lock; the other attempts are made once, and all the same."""
    closed = any_room.root / "closed"
    closed.mkdir(mode=0o555)
    confinement = replace(any_room.confinement, writable=(any_room.checkout, closed))
    proof = prove(any_room.sandbox, confinement, ProbeTargets())
    assert (proof.failure, len(proof.findings) > 40) == ("", True)
    [hole] = proof.holes
    assert hole.startswith("outlive the bead (not tried: ")
    [row] = [row for row in proof.rows if row.title == OUTLIVING.title]
    assert row.state is GuaranteeState.BROKEN


def try_lacking(lack: str, *attempts: list[str]) -> list[tuple[object, str]]:
    """What the attempts say where the machine lacks something."""
    launcher = HERE.parents[1] / "gitlab_nightshift/sandbox/inside/launcher.py"
    package, _, _ = launcher.read_text().rpartition("__import__")
    code = f"__file__ = {str(launcher)!r}\n{package}\nimport inside.attacks\n{lack}\n"
    code += "inside.attacks.main()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=json.dumps({"attempts": [["name", *attempt] for attempt in attempts]}),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(is_open, how) for _, is_open, how in json.loads(done.stdout)]


FORKS_ONCE = """
import os
real, left = os.fork, [1]
def fork():
    if not left:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    left.pop()
    return real()
os.fork = fork
"""
NO_DESCRIPTORS = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"


def test_a_child_that_cannot_fork_exits(tmp_path: Path) -> None:
    outlive = ["outlive", str(tmp_path / "lock")]
    first, again, other = try_lacking(FORKS_ONCE, outlive, outlive, ["usable", "/bin/sh"])
    why = "not tried: [Errno 11] Resource temporarily unavailable"
    assert (first, again) == ((None, why), (None, "not tried: Resource temporarily unavailable"))
    assert other[0] is True


def test_exhausted_resources_prove_nothing() -> None:
    assert try_lacking(NO_DESCRIPTORS, ["read", "/etc/passwd"]) == [
        (None, "not tried: Too many open files")
    ]
    guarantees = build_guarantees(Tier.LANDLOCK, Features(landlock=6, notify=True))
    untried = ProbeOutcome("try", None, "not tried: Too many open files")
    for row in (GATEWAY, OUTLIVING, WRITING):
        assert proofs._build_finding(row, untried, guarantees).hole


def test_a_gateway_that_cannot_be_reached_is_no_proof(any_room: Room) -> None:
    from gitlab_nightshift.sandbox.probe_run import open_tcp_listener, open_unix_listener
    from gitlab_nightshift.sandbox.tiers import ServicePort

    with open_tcp_listener() as closed, open_unix_listener(any_room.root / "socket"):
        port = closed.getsockname()[1]
    with open_unix_listener(any_room.root / "socket"):
        confinement = any_room.using(
            services=[ServicePort(port, any_room.root / "socket")]
        ).confinement
        proof = prove(any_room.sandbox, confinement, ProbeTargets())
    gateway = [f for f in proof.findings if f.row.guarantee == "gateway"]
    inside_listens = any_room.sandbox.tier is Tier.NAMESPACES
    assert [f.hole for f in gateway] == [not inside_listens]


def test_a_sandbox_that_cannot_be_set_up_is_reported(any_room: Room) -> None:
    broken = replace(any_room.sandbox, features=Features(landlock=99, notify=False))
    proof = prove(broken, any_room.confinement, ProbeTargets())
    assert not proof.held
    assert proof.failure.startswith("files: ")
    assert proof.rows == ()


def test_a_row_reports_the_worst_of_its_attempts() -> None:
    row = ROWS[0]
    findings = (
        ProbeFinding(row, "read a", False, True, "Permission denied"),
        ProbeFinding(row, "read b", True, False, "b can be read"),
    )
    proof = BoundaryProof(Tier.UID, findings, "")
    assert proof.rows == (
        ProbeSummary(row.title, 2, GuaranteeState.PARTIAL, "read b: b can be read"),
    )
    assert proof.held
    worse = replace(
        proof, findings=(*findings, ProbeFinding(row, "read c", True, True, "so it is"))
    )
    assert worse.rows == (ProbeSummary(row.title, 3, GuaranteeState.BROKEN, "read c: so it is"),)


# --- what the findings mean -----------------------------------------------------------------------


FOUR = ("files", "secrets", "network", "lifetime")
FULL = Features(landlock=7, notify=True)
OLD = Features(landlock=3, notify=False, monitor_failure="seccomp: Invalid argument")


def finding(row: ProofRow, tier: Tier, features: Features, *, is_open: bool = True) -> ProbeFinding:
    promised = build_guarantees(tier, features).closes(row)
    return ProbeFinding(row, "try it", is_open, promised, "it can be done")


@pytest.mark.parametrize(
    ("tier", "features", "partial"),
    [
        (Tier.NAMESPACES, FULL, ()),
        (Tier.NAMESPACES, Features(0, notify=False), ()),
        (Tier.UID, FULL, ()),
        (Tier.UID, Features(0, notify=True), ("files",)),
        (Tier.UID, replace(FULL, notify=False), ("network",)),
        (Tier.UID, Features(0, notify=False), ("files", "network")),
        (Tier.LANDLOCK, FULL, ()),
        (Tier.LANDLOCK, replace(FULL, notify=False), ("files", "network")),
        (Tier.LANDLOCK, OLD, ("files", "network", "lifetime")),
        (Tier.NONE, Features(0, notify=False), FOUR),
    ],
)
def test_open_rows_make_a_guarantee_partial(
    tier: Tier, features: Features, partial: tuple[str, ...]
) -> None:
    """Whether the attempts of these rows succeed or not."""
    promised = build_guarantees(tier, features)
    open_ones = [finding(row, tier, features) for row in ROWS if not promised.closes(row)]
    closed = [finding(row, tier, features, is_open=False) for row in ROWS]
    for findings in ([], open_ones, closed):
        judged = judge_guarantees(promised, findings)
        assert [each.name for each in judged] == list(FOUR)
        assert {each.name for each in judged if each.state is GuaranteeState.PARTIAL} == set(
            partial
        )
        assert {each.name for each in judged if each.state is GuaranteeState.BROKEN} == set()
        assert all(each.reason for each in judged)


def test_the_reason_says_what_the_kernel_refused() -> None:
    network = judge_guarantees(build_guarantees(Tier.LANDLOCK, OLD))[2]
    assert network.reason == (
        "TCP goes anywhere: connects cannot be judged (seccomp: Invalid argument)"
    )
    files = judge_guarantees(build_guarantees(Tier.LANDLOCK, OLD))[0]
    assert files.reason == (
        "modes and times of the job user's other files can be changed:"
        " changes cannot be judged (seccomp: Invalid argument)"
    )


@pytest.mark.parametrize("row", ROWS)
def test_a_hole_breaks_its_guarantee(row: ProofRow) -> None:
    """Also if the guarantee is partial because of another row: open modes excuse no writing."""
    without = Features(landlock=6, notify=False)
    tiers = [(tier, FULL) for tier in (Tier.NAMESPACES, Tier.UID, Tier.LANDLOCK)]
    for tier, features in (*tiers, (Tier.LANDLOCK, without)):
        judged = judge_guarantees(build_guarantees(tier, features), [finding(row, tier, features)])
        broken = [
            (each.name, each.reason) for each in judged if each.state is GuaranteeState.BROKEN
        ]
        excused = features is without and row in (FILE_MODES, SERVICES, DIRECT_NETWORK)
        assert broken == ([] if excused else [(row.guarantee, "try it (it can be done)")])


def refusal(tier: Tier, features: Features, accepted: tuple[str, ...], *rows: ProofRow) -> str:
    """Why a run is stopped, "" if it goes on."""
    findings = [finding(row, tier, features) for row in rows]
    try:
        refuse_weaker(tier, judge_guarantees(build_guarantees(tier, features), findings), accepted)
    except NightshiftError as error:
        assert error.code is Code.POLICY_DENY
        assert len(error.message.splitlines()) == 1
        return error.message
    return ""


def test_a_partial_guarantee_stops_a_run_unless_accepted() -> None:
    assert refusal(Tier.NAMESPACES, FULL, ()) == refusal(Tier.LANDLOCK, FULL, ()) == ""
    message = refusal(Tier.LANDLOCK, OLD, ())
    names = "files, network, lifetime are only partly held in the tier landlock"
    assert message.startswith(f"{names} (modes and times of ")
    assert "; TCP goes anywhere: " in message
    assert "; accept it with accept_partial: [files, network, lifetime] (" in message
    assert len(message) < 400, "which is what a log's last line shows"
    message = refusal(Tier.LANDLOCK, OLD, ("network", "lifetime"))
    assert message.startswith("files is only partly held in the tier landlock (modes ")
    assert "accept_partial: [files, network, lifetime]" in message
    assert refusal(Tier.LANDLOCK, OLD, FOUR) == ""
    assert refusal(Tier.NAMESPACES, FULL, FOUR) == ""


def test_a_broken_guarantee_cannot_be_accepted() -> None:
    for row in (ENVIRONMENTS, DIRECT_NETWORK, SERVICES, WRITING, GATEWAY, OWN_CODE):
        message = refusal(Tier.LANDLOCK, FULL, FOUR, row)
        assert message == "the boundary does not hold here: try it (it can be done)"


def test_the_tier_none_stops_no_run() -> None:
    assert refusal(Tier.NONE, Features(0, notify=False), ()) == ""
