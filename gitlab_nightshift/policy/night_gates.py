"""The gates that are decided before an agent of a night runs: exec and network."""

from collections.abc import Iterator

from gitlab_nightshift.settings.model import Settings

_LISTS = {"exec": "allowed_commands", "network": "policy.egress_hosts"}


def any_command(settings: Settings) -> bool:
    """True where agents may run commands outside ``allowed_commands``."""
    return settings.policy.gates.exec == "auto_allow" and settings.profile == "development"


def describe_closed_gates(settings: Settings) -> Iterator[str]:
    """Settings that have no effect in a night, one sentence each.

    Nobody is there to ask, and no setting opens the whole network: ``deny`` applies instead.
    """
    for name, listed in _LISTS.items():
        gate = getattr(settings.policy.gates, name)
        if gate == "deny" or (name == "exec" and any_command(settings)):
            continue
        yield (f"policy.gates.{name}: {gate} is deny in a night: only what {listed} names is open")
