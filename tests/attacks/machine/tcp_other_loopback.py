from tests.attacks.places import Places, reach

TITLE = "another loopback address"
TRIES = "Connects to 127.0.0.2, where a service on all addresses listens, too (Docker's DNS does)."
PROMISE = "network"
MUST_FAIL = "Of 127/8 only 127.0.0.1 counts as loopback."


def attack(places: Places) -> str | None:
    return reach("127.0.0.2", places.ports["mapped"])
