"""What each tier gives, in sentences that are true on this machine."""

from gitlab_nightshift.host.sandbox.records import Features, Guarantee, Guarantees, Tier
from gitlab_nightshift.host.sandbox.rows import (
    DIRECT,
    MODES,
    OTHER_FILES,
    ROWS,
    SERVICES,
    SIGNALS,
    WRITING,
    Row,
)

NOTHING = "nothing keeps an agent from it"
LONGEST_WHY = 100
NETWORK_ROWS = (SERVICES, DIRECT)


def guarantees(tier: Tier, features: Features) -> Guarantees:
    """The promises of a tier with what the kernel gave."""
    if tier is Tier.NONE:
        ended = "what an agent leaves behind is ended, if it can be found"
        files, secrets, network = (
            Guarantee(NOTHING, _rows(name)) for name in ("files", "secrets", "network")
        )
        return Guarantees(files, secrets, network, Guarantee(ended, _rows("lifetime")))
    return Guarantees(
        _files(tier, features),
        _secrets(tier, features),
        _network(tier, features),
        _lifetime(tier, features),
    )


def _rows(promise: str) -> tuple[Row, ...]:
    return tuple(row for row in ROWS if row.promise == promise)


def _files(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("only the checkout, its scratch and the public system are there")
    if features.landlock and tier is Tier.UID:
        return Guarantee("writes only in the checkout and its scratch; reads only the system")
    if features.landlock:
        text = "modes and times of the job user's other files can be changed"
        return Guarantee(text, (MODES,))
    text = "what every user of this machine may read is readable, and /tmp can be written"
    return Guarantee(text, (OTHER_FILES, WRITING))


def _secrets(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("no process, socket or private file of the job can be named")
    if tier is Tier.UID and not features.landlock:
        return Guarantee("another user: environments, memory and private files are closed")
    return Guarantee("environments, memory, descriptors and files of the job are closed")


def _network(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("none but the gateway; an own loopback for tests")
    if features.notify:
        return Guarantee("each connect is judged: the gateway, and servers of its own tests")
    why = (
        f": connects cannot be judged ({features.lacking[:LONGEST_WHY]})"
        if features.lacking
        else ""
    )
    if features.landlock >= 4:
        text = f"TCP goes to the gateway's port on any host{why}"
    else:
        text = f"TCP goes anywhere{why}"
    return Guarantee(text, NETWORK_ROWS)


def _lifetime(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee("the kernel ends everything with the bead")
    if tier is Tier.UID:
        return Guarantee("everything of the agent's user is ended with the bead")
    if features.scopes or features.notify:
        return Guarantee("every descendant is ended with the bead; no signal leaves it")
    text = "signals reach other processes of the job's user"
    return Guarantee(text, (SIGNALS,))
