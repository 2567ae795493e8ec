import socket

from tests.attacks.places import Places, hit

TITLE = "a server for the whole network"
TRIES = "Listens on all addresses, and lets somebody outside connect to it and take what it has."
PROMISE = "network"
MUST_FAIL = "A wildcard becomes loopback, another address is refused; a namespace has its own."


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    for host in ("0.0.0.0", places.own_address):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, places.ports["offered"]))
            one.listen()
            hit(places, "offered")
    return "offered"


def seen(places: Places) -> bool:
    return hit(places, "offered")
