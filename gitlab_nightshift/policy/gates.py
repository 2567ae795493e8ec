"""The gates that are decided before a delegation's agent starts, and the settings that apply to it.
The change is judged later, like any other (``write_gate.py``)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.records.delegation_records import Payload
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Gate, TestCommand

GateName = Literal["start", "exec", "network", "write"]


@dataclass(frozen=True)
class RequiredGate:
    """A gate that a delegation has to pass: what the policy decides, and ``why`` it has to."""

    gate: GateName
    decision: Gate
    why: str


def restrict_settings(settings: Settings) -> Settings:
    """The settings that apply to a delegation.

    In production no gate opens without an approval, and only paths that the policy lists explicitly
    are writable: its default, every file, does not count.
    """
    if settings.profile == "development":
        return settings
    policy = settings.policy
    gates = policy.gates
    strict_gates = {
        name: "require_approval" if decision == "auto_allow" else decision
        for name, decision in vars(gates).items()
    }
    lists_paths = settings.find_source("policy.writable_paths") != "default"
    restricted = policy.with_values(
        gates=gates.with_values(**strict_gates),
        writable_paths=policy.writable_paths if lists_paths else [],
    )
    return settings.with_values(policy=restricted)


def list_gates(payload: Payload, settings: Settings) -> tuple[RequiredGate, ...]:
    """The gates before the agent starts, for the settings of :func:`restrict_settings`."""
    development, policy_gates = settings.profile == "development", settings.policy.gates
    needs = "needs profile: development"
    required: list[RequiredGate] = []
    if not development:
        required.append(RequiredGate("start", "require_approval", "a delegation in production"))
        if payload.workspace.checkout_mode == "in_place":
            required.append(RequiredGate("write", "deny", f"checkout_mode: in_place {needs}"))
        if not payload.workspace.clean_after:
            required.append(RequiredGate("write", "deny", f"clean_after: false {needs}"))
    if payload.debug.codex_command:
        why = "debug.codex_command starts a program of the caller's"
        if development:
            required.append(RequiredGate("exec", policy_gates.exec, why))
        else:
            required.append(RequiredGate("exec", "deny", f"{why}: it {needs}"))
    if payload.execution.network == "on":
        why = f"network: on, to {', '.join(settings.policy.egress_hosts)}"
        required.append(RequiredGate("network", policy_gates.network, why))
    if payload.execution.dependency_policy == "allow_install":
        why = "dependency_policy: allow_install"
        required.append(RequiredGate("network", policy_gates.network, why))
    return tuple(required)


def find_test_refusal(payload: Payload, settings: Settings) -> str:
    """Why the requested test may not be run; "" if it may, or none is requested."""
    test_id, test_commands = payload.execution.test_command_id, settings.policy.test_commands
    if test_id is None:
        return ""
    if test_id not in test_commands:
        allowed = ", ".join(test_commands) or "none"
        return f"test_command_id: {test_id!r} is not in policy.test_commands ({allowed})"
    for argument in payload.execution.test_args:
        if argument not in test_commands[test_id].args:
            return f"test_args: {argument!r} is not in policy.test_commands.{test_id}.args"
    return ""


def build_test_command(payload: Payload, test_commands: dict[str, TestCommand]) -> tuple[str, ...]:
    """The words of the requested test's command line; none if no test is requested."""
    test_id = payload.execution.test_command_id
    if test_id is None:
        return ()
    return (*test_commands[test_id].command, *payload.execution.test_args)


_ALLOWLISTS = {"exec": "allowed_commands", "network": "policy.egress_hosts"}
"""Gate → the setting that says what it allows in a night, whatever the gate's own setting."""


def allows_any_command(settings: Settings) -> bool:
    """True if agents may run commands outside ``allowed_commands``."""
    return settings.policy.gates.exec == "auto_allow" and settings.profile == "development"


def describe_closed_gates(settings: Settings) -> Iterator[str]:
    """A sentence for each gate whose setting has no effect in a night.

    Nobody is there to approve, and no setting opens the whole network: ``deny`` applies instead.
    """
    for gate, allowlist in _ALLOWLISTS.items():
        decision = getattr(settings.policy.gates, gate)
        if decision == "deny" or (gate == "exec" and allows_any_command(settings)):
            continue
        yield f"policy.gates.{gate}: {decision} means deny in a night: only {allowlist} is allowed"
