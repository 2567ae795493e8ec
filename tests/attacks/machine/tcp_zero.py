from tests.attacks.places import Places, reach

TITLE = "the address 0.0.0.0"
TRIES = "Connects to the wildcard, which leads to loopback."
PROMISE = "network"
MUST_FAIL = "It counts as loopback, with loopback's rules."


def attack(places: Places) -> str | None:
    return reach("0.0.0.0", places.ports["tcp"])
