"""The gates that are decided before a night's agent starts: exec and network."""

from collections.abc import Iterator

from gitlab_nightshift.settings.model import Settings

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
