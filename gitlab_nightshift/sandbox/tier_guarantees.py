"""The promises of each tier, in sentences that are true on this machine."""

from gitlab_nightshift.sandbox.proof_rows import (
    DIRECT,
    MODES,
    OTHER_FILES,
    ROWS,
    SERVICES,
    SIGNALS,
    WRITING,
    ProofRow,
)
from gitlab_nightshift.sandbox.tiers import Features, Guarantee, Guarantees, Tier

NOTHING = "nothing stops an agent"
LONGEST_WHY = 100
NETWORK_ROWS = (SERVICES, DIRECT)


def build_guarantees(tier: Tier, features: Features) -> Guarantees:
    """The promises of a tier with these features of the kernel."""
    if tier is Tier.NONE:
        ended = "what an agent leaves running is ended if it can be found"
        files, secrets, network = (
            Guarantee(NOTHING, _list_rows(name)) for name in ("files", "secrets", "network")
        )
        return Guarantees(files, secrets, network, Guarantee(ended, _list_rows("lifetime")))
    return Guarantees(
        _build_file_guarantee(tier, features),
        _build_secret_guarantee(tier, features),
        _build_network_guarantee(tier, features),
        _build_lifetime_guarantee(tier, features),
    )


def _list_rows(promise: str) -> tuple[ProofRow, ...]:
    return tuple(row for row in ROWS if row.promise == promise)


def _build_file_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(
            "only the checkout, its scratch space and the public part of the system are visible"
        )
    if features.landlock and (tier is Tier.UID or features.notify):
        return Guarantee("writes only in the checkout and its scratch space; reads only the system")
    if features.landlock:
        text = "modes and times of the job user's other files can be changed"
        return Guarantee(text + _describe_lacking("changes", features), (MODES,))
    text = "whatever any user of this machine may read is readable, and /tmp is writable"
    return Guarantee(text, (OTHER_FILES, WRITING))


def _build_secret_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("no process, socket or private file of the job can be reached")
    if tier is Tier.UID and not features.landlock:
        return Guarantee("another user: environments, memory and private files are closed")
    return Guarantee("environments, memory, descriptors and files of the job are closed")


def _build_network_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("only the gateway, and a separate loopback for tests")
    if features.notify:
        return Guarantee("every connection is checked: only the gateway and its own test servers")
    text = "TCP goes anywhere"
    if features.landlock >= 4:
        text = "TCP goes to the gateway's port on any host"
    return Guarantee(text + _describe_lacking("connects", features), NETWORK_ROWS)


def _describe_lacking(what: str, features: Features) -> str:
    """Why no monitor checks it."""
    why = features.lacking[:LONGEST_WHY]
    return f": {what} cannot be judged ({why})" if why else ""


def _build_lifetime_guarantee(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("the kernel ends every process when the agent ends")
    if tier is Tier.UID:
        return Guarantee("every process of the agents' user is ended when the agent ends")
    if features.scopes or features.notify:
        return Guarantee("every descendant is ended when the agent ends; no signal gets out")
    text = "signals reach other processes of the job's user"
    return Guarantee(text, (SIGNALS,))
