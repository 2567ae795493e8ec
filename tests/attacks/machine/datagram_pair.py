import socket

from tests.attacks.places import Places, hit

TITLE = "a pair of datagram sockets"
TRIES = "Makes a harmless pair and sends from one half to a foreign socket, by sendto and sendmsg."
PROMISE = "network"
MUST_FAIL = "Pairs of datagram sockets are refused: the address of sendmsg no filter can see."


def attack(places: Places) -> str | None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        try:
            return str(one.sendto(b"hello", places.sockets["syslog"]))
        except OSError:
            return str(one.sendmsg([b"hello"], [], 0, places.sockets["syslog"]))


def seen(places: Places) -> bool:
    return hit(places, "syslog")
