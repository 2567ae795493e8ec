from tests.attacks.places import Places, reach

TITLE = "a service by the machine's own address"
TRIES = "Connects to the same machine by its address in the network."
PROMISE = "network"
MUST_FAIL = "Only loopback is ever connected to; a namespace has nothing else."


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    return reach(places.own_address, places.ports["mapped"])
