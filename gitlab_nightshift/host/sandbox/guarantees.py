"""What each tier gives, in sentences that are true on this machine."""

from gitlab_nightshift.host.sandbox.records import Features, Guarantee, Guarantees, Tier

NOTHING = "nothing keeps an agent from it"


def guarantees(tier: Tier, features: Features) -> Guarantees:
    """The promises of a tier with what the kernel gave."""
    if tier is Tier.NONE:
        open_ = Guarantee(False, NOTHING)
        ended = Guarantee(False, "what an agent leaves behind is ended, if it can be found")
        return Guarantees(open_, open_, open_, ended)
    return Guarantees(
        _files(tier, features),
        _secrets(tier, features),
        _network(tier, features),
        _lifetime(tier, features),
    )


def _files(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(True, "only the checkout, its scratch and the public system are there")
    if features.landlock and tier is Tier.UID:
        return Guarantee(True, "writes only in the checkout and its scratch; reads only the system")
    if features.landlock:
        return Guarantee(
            True,
            "writes only in the checkout and its scratch, reads only the system; but modes and"
            " times of the job user's other files can be changed",
        )
    return Guarantee(False, "reads what every user of this machine may read, and can write to /tmp")


def _secrets(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(True, "no process, socket or private file of the job can be named")
    if tier is Tier.UID and not features.landlock:
        return Guarantee(True, "another user: environments, memory and private files are closed")
    return Guarantee(True, "environments, memory, descriptors and files of the job are closed")


def _network(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(True, "none but the gateway; an own loopback for tests")
    if features.notify:
        return Guarantee(True, "each connect is judged: the gateway, and servers of its own tests")
    if features.landlock >= 4:
        return Guarantee(
            False,
            "TCP to the gateway's port number, on any host; tests cannot reach servers of their"
            " own; hold egress by the runner's network policy",
        )
    return Guarantee(False, "TCP to anywhere; hold egress by the runner's network policy")


def _lifetime(tier: Tier, features: Features) -> Guarantee:
    if tier is Tier.NAMESPACES:
        return Guarantee(True, "the kernel ends everything with the bead")
    if tier is Tier.UID:
        return Guarantee(True, "everything of the agent's user is ended with the bead")
    if features.scopes or features.notify:
        return Guarantee(True, "every descendant is ended with the bead; no signal leaves it")
    return Guarantee(
        False, "every descendant is ended with the bead, but it can send signals to the job"
    )
