import socket

from tests.attacks.places import Places, hit

TITLE = "the name of somebody else's abstract socket"
TRIES = "Takes a name that another program will want: to be called by its clients, or as a lock."
PROMISE = "network"
MUST_FAIL = "Names are the namespace's own; elsewhere the monitor refuses to bind one."


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as taker:
        taker.bind(places.sockets["wanted"])
        taker.listen()
        hit(places, "wanted")
    return "taken"


def seen(places: Places) -> bool:
    return hit(places, "wanted")
