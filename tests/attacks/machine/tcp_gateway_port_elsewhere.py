from tests.attacks.places import Places, reach

TITLE = "the gateway's port on another address"
TRIES = "Connects to a port that is allowed, but where somebody else listens."
PROMISE = "network"
MUST_FAIL = "A port is allowed together with its host; Landlock alone could not tell."


def attack(places: Places) -> str | None:
    return reach("127.0.0.2", places.gateway)
