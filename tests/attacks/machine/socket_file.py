from tests.attacks.places import Places, reach_unix

TITLE = "a socket file of another program"
TRIES = "Connects to a UNIX socket that everybody may use."
PROMISE = "network"
MUST_FAIL = (
    "The monitor connects only below the agent's own folders; in a namespace it is not there."
)


def attack(places: Places) -> str | None:
    return reach_unix(places.sockets["plain"])
