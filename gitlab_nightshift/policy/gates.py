"""The gates that are decided before an agent starts, and the settings that apply to a delegation.
Its change is judged later, like any other (``write_gate.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Gate, TestCommand

GateName = Literal["start", "exec", "network", "write"]


@dataclass(frozen=True)
class GateDecision:
    """A gate that a delegation has to pass; ``does`` is the decision, ``why`` the reason for it."""

    gate: GateName
    does: Gate
    why: str


def restrict_settings(settings: Settings) -> Settings:
    """The settings that apply to a delegation.

    In production no gate opens without an approval, and only paths that the policy lists
    explicitly are writable: its default, every file, does not count.
    """
    if settings.profile == "development":
        return settings
    policy = settings.policy
    gates = policy.gates
    asking = {
        name: "require_approval" if gate == "auto_allow" else gate
        for name, gate in vars(gates).items()
    }
    listed = settings.find_source("policy.writable_paths") != "default"
    restricted = policy.with_values(
        gates=gates.with_values(**asking),
        writable_paths=policy.writable_paths if listed else [],
    )
    return settings.with_values(policy=restricted)


def list_gates(payload: Payload, settings: Settings) -> tuple[GateDecision, ...]:
    """The gates before the agent starts; ``settings`` are from :func:`restrict_settings`."""
    development = settings.profile == "development"
    needs = "needs profile: development"
    decisions: list[GateDecision] = []
    if not development:
        decisions.append(GateDecision("start", "require_approval", "a delegation in production"))
        if payload.workspace.checkout_mode == "in_place":
            decisions.append(GateDecision("write", "deny", f"checkout_mode: in_place {needs}"))
        if not payload.workspace.clean_after:
            decisions.append(GateDecision("write", "deny", f"clean_after: false {needs}"))
    if payload.debug.codex_command:
        why = "debug.codex_command starts a program of the caller's"
        does = settings.policy.gates.exec if development else "deny"
        decisions.append(GateDecision("exec", does, why if development else f"{why}: it {needs}"))
    if payload.execution.network == "on":
        hosts = ", ".join(settings.policy.egress_hosts)
        decisions.append(
            GateDecision("network", settings.policy.gates.network, f"network: on, to {hosts}")
        )
    if payload.execution.dependency_policy == "allow_install":
        why = "dependency_policy: allow_install"
        decisions.append(GateDecision("network", settings.policy.gates.network, why))
    return tuple(decisions)


def find_test_refusal(payload: Payload, settings: Settings) -> str:
    """Why the requested test may not be run; "" if it may, or none is requested."""
    wanted, listed = payload.execution.test_command_id, settings.policy.test_commands
    if wanted is None:
        return ""
    if wanted not in listed:
        known = ", ".join(listed) or "none"
        return f"test_command_id: {wanted!r} is not in policy.test_commands ({known})"
    for argument in payload.execution.test_args:
        if argument not in listed[wanted].args:
            return f"test_args: {argument!r} is not in policy.test_commands.{wanted}.args"
    return ""


def build_test_command(payload: Payload, listed: dict[str, TestCommand]) -> tuple[str, ...]:
    """The words of the requested test's command line; none without one."""
    wanted = payload.execution.test_command_id
    if wanted is None:
        return ()
    return (*listed[wanted].command, *payload.execution.test_args)


# The lists that hold in a night whatever the gate says.
_LISTS = {"exec": "allowed_commands", "network": "policy.egress_hosts"}


def any_command(settings: Settings) -> bool:
    """True if agents may run commands outside ``allowed_commands``."""
    return settings.policy.gates.exec == "auto_allow" and settings.profile == "development"


def describe_closed_gates(settings: Settings) -> Iterator[str]:
    """A sentence for each gate whose setting has no effect in a night.

    Nobody is there to approve, and no setting opens the whole network: ``deny`` applies instead.
    """
    for name, listed in _LISTS.items():
        gate = getattr(settings.policy.gates, name)
        if gate == "deny" or (name == "exec" and any_command(settings)):
            continue
        yield f"policy.gates.{name}: {gate} means deny in a night: only {listed} is allowed"
