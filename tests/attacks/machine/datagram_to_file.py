import socket

from tests.attacks.places import Places, hit

TITLE = "a datagram to a socket file"
TRIES = "Writes to the log daemon's socket, which needs no connection."
PROMISE = "network"
MUST_FAIL = "No datagram socket is given out; in a namespace the file is not there."


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        return str(one.sendmsg([b"hello"], [], 0, places.sockets["log"]))


def seen(places: Places) -> bool:
    return hit(places, "log")
