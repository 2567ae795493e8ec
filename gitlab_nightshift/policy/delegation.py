"""What a delegation may do, decided before any agent runs: pure functions of what it asks for.

What it then did to files is judged like any change, by the settings that :func:`delegated` gives.
"""

from dataclasses import dataclass
from typing import Literal

from gitlab_nightshift.records.delegation import Payload
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.parts import Gate, TestCommand

GateName = Literal["start", "exec", "network", "write"]


@dataclass(frozen=True)
class AtGate:
    """A gate that a delegation comes to, what it does there, and why."""

    gate: GateName
    does: Gate
    why: str


def delegated(settings: Settings) -> Settings:
    """The settings as they hold for a delegation.

    In production a gate lets nothing through unasked, and writable is what the policy lists: its
    default, which is every file, is no list.
    """
    if settings.profile == "development":
        return settings
    policy = settings.policy
    gates = policy.gates
    asking = {name: _asks(getattr(gates, name)) for name in type(gates).model_fields}
    listed = settings.source("policy.writable_paths") != "default"
    held = policy.model_copy(
        update={
            "gates": gates.model_copy(update=asking),
            "writable_paths": policy.writable_paths if listed else [],
        }
    )
    return settings.model_copy(update={"policy": held})


def _asks(gate: Gate) -> Gate:
    return "require_approval" if gate == "auto_allow" else gate


def gates_of(payload: Payload, settings: Settings) -> tuple[AtGate, ...]:
    """The gates on the way to the agent; ``settings`` are :func:`delegated`."""
    development = settings.profile == "development"
    needs = "needs profile: development"
    found: list[AtGate] = []
    if not development:
        found.append(AtGate("start", "require_approval", "a delegation in production"))
        if payload.workspace.checkout_mode == "in_place":
            found.append(AtGate("write", "deny", f"checkout_mode: in_place {needs}"))
        if not payload.workspace.clean_after:
            found.append(AtGate("write", "deny", f"clean_after: false {needs}"))
    if payload.debug.codex_command:
        why = "debug.codex_command starts a program of the caller's"
        does = settings.policy.gates.exec if development else "deny"
        found.append(AtGate("exec", does, why if development else f"{why}: it {needs}"))
    if payload.execution.network == "on":
        hosts = ", ".join(settings.policy.egress_hosts)
        found.append(AtGate("network", settings.policy.gates.network, f"network: on, to {hosts}"))
    if payload.execution.dependency_policy == "allow_install":
        why = "dependency_policy: allow_install"
        found.append(AtGate("network", settings.policy.gates.network, why))
    return tuple(found)


def refused_test(payload: Payload, settings: Settings) -> str:
    """Why the test that is asked for may not be run; "" where it may, or none is asked for."""
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


def test_command(payload: Payload, listed: dict[str, TestCommand]) -> tuple[str, ...]:
    """The words of the test's command line; none where no test is asked for."""
    wanted = payload.execution.test_command_id
    if wanted is None:
        return ()
    return (*listed[wanted].command, *payload.execution.test_args)
