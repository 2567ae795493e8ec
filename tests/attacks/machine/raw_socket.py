import socket

from tests.attacks.places import Places

TITLE = "a raw socket"
TRIES = "Makes one for ICMP, and one that writes its own IP headers."
PROMISE = "network"
MUST_FAIL = "The filter knows streams only."
LOOT = "a right"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW):
        socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol).close()
    return "packets of any kind can be sent"
