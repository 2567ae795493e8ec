from tests.attacks.places import Places, reach_unix

TITLE = "an abstract socket"
TRIES = "Connects to a socket that is no file: session buses and many daemons have one."
PROMISE = "network"
MUST_FAIL = "Landlock's scope and the monitor refuse names outside; a namespace has its own."


def attack(places: Places) -> str | None:
    return reach_unix(places.sockets["abstract"])
