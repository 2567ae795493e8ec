"""What ``nightshift doctor --boundary`` prints of an examination."""

from dataclasses import replace

from gitlab_nightshift.commands.doctor_boundary import (
    Examination,
    describe_verdict,
    format_examination,
)
from gitlab_nightshift.commands.risky_variables import Risk
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import BoundaryChosen, BoundaryProven, Note
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary, Strength

HELD = tuple(
    Strength(n, GuaranteeState.HELD, "so") for n in ("files", "secrets", "network", "lifetime")
)
WEAKER = (*HELD[:2], Strength("network", GuaranteeState.PARTIAL, "TCP goes anywhere"), HELD[3])
OWN = ProbeSummary("this program's own code", 12, GuaranteeState.HELD, "not found")
OTHER = ProbeSummary("direct network", 9, GuaranteeState.HELD, "Network is unreachable")
RISKS = (Risk("runs code", tuple(f"GIT_CONFIG_KEY_{n}" for n in range(7)), ("GIT_CONFIG_KEY_0",)),)


def build_examination(guarantees: tuple[Strength, ...] = HELD, tier: str = "uid") -> Examination:
    passed_over = (("namespaces", "bwrap is not installed"),)
    places = (("/opt/claude",), ("/opt/jdk",), ("registry.example:443",))
    chosen = BoundaryChosen("auto", tier, passed_over, guarantees, "claude_code", *places)
    proven = BoundaryProven(guarantees, (OTHER, OWN))
    return Examination(chosen, proven, [Note("  exec: fenced")], (".", "src"), RISKS)


def lines(examination: Examination, *, verbose: bool = False) -> list[str]:
    return format_examination(examination, verbose=verbose, colour=False).splitlines()


def test_a_sealed_night_takes_at_most_ten_lines() -> None:
    printed = lines(build_examination())
    assert len(printed) <= 10
    why = "namespaces does not work here: bwrap is not installed"
    assert printed[0] == f"The sandbox is uid, the strongest that works here; {why}"
    assert "claude_code, which reads /opt/claude; agent_paths: /opt/jdk" in printed[1]
    assert "open hosts: registry.example:443" in printed[1]
    assert [line.split()[:2] for line in printed[2:6]] == [[each.name, "held:"] for each in HELD]
    assert printed[6].split("held:")[0].strip() == "this program's own code"
    assert "12 attempts, nothing planted in the checkout and src" in printed[6]
    shown = ", ".join(f"GIT_CONFIG_KEY_{n}" for n in range(5))
    assert printed[7] == (
        f"Risky variables of this job: {shown} and 2 more (runs code; agent_env gives"
        " GIT_CONFIG_KEY_0 to agents)"
    )
    assert printed[8].startswith(
        "A night here is sealed but for registry.example:443, which policy.egress_hosts opens: "
    )
    examination = build_examination()
    assert examination.chosen
    examination.chosen = replace(examination.chosen, hosts=())
    assert describe_verdict(examination).startswith("A night here is sealed: ")


def test_verbose_adds_evidence_and_all_names() -> None:
    usual = lines(build_examination())
    more = [line for line in lines(build_examination(), verbose=True) if line not in usual]
    assert any("direct network" in line and "9 tried: Network is" in line for line in more)
    assert "exec: fenced" in more
    assert any("GIT_CONFIG_KEY_6" in line for line in more)


def test_a_night_without_a_sandbox_is_yellow() -> None:
    colours = {
        tier: format_examination(build_examination(tier=tier), verbose=False, colour=True)
        for tier in ("uid", "none")
    }
    verdicts = {tier: text.rpartition("\n")[2] for tier, text in colours.items()}
    assert verdicts["uid"].startswith("\x1b[32m")
    assert verdicts["none"].startswith("\x1b[33m")


def test_the_verdict_is_one_sentence() -> None:
    assert describe_verdict(build_examination(WEAKER)) == (
        "A night would start here with network only partly held, as accept_partial allows."
    )
    assert "without a sandbox (isolation: none)" in describe_verdict(build_examination(tier="none"))
    refused = build_examination(WEAKER)
    refused.refusals = [
        NightshiftError(Code.PROVIDER_UNAVAILABLE, "no model key"),
        NightshiftError(Code.POLICY_DENY, "network is only partly held"),
    ]
    assert describe_verdict(refused) == (
        "No night would start here: no model key; also: network is only partly held"
    )
    assert refused.exit_status == 5
    assert (build_examination().exit_status, build_examination(WEAKER).exit_status) == (0, 0)


def test_weaker_guarantees_and_warnings_are_marked() -> None:
    broken = (
        *HELD[:3],
        Strength("lifetime", GuaranteeState.BROKEN, "outlive the bead (it lives on)"),
    )
    examination = build_examination(broken)
    examination.notes.append(Note("AWS: the agent itself holds this cloud's credentials", True))
    printed = lines(examination)
    assert any(line.split()[:2] == ["lifetime", "OPEN:"] for line in printed)
    weaker = lines(build_examination(WEAKER))
    assert any(line.split()[:2] == ["network", "partly:"] for line in weaker)
    assert "AWS: the agent itself holds this cloud's credentials" in printed
    painted = format_examination(build_examination(WEAKER), verbose=False, colour=True)
    assert "\x1b[33mnetwork" in painted
    assert "\x1b[32mthis program's own code" in painted


def test_with_invalid_settings_there_is_only_the_verdict() -> None:
    error = NightshiftError(Code.CONFIG, "line 3: isolatoin: unknown key\nline 5: wrong")
    assert lines(Examination(refusals=[error])) == [
        "No night would start here: line 3: isolatoin: unknown key; line 5: wrong"
    ]
