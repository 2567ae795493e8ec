from tests.attacks.places import Places, reach

TITLE = "a service on loopback"
TRIES = "Connects to a port of the job's machine: a database, a metadata proxy."
PROMISE = "network"
MUST_FAIL = "The monitor knows the gateway's port and those of the agent's own servers only."


def attack(places: Places) -> str | None:
    return reach("127.0.0.1", places.ports["tcp"])
