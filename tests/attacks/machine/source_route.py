import socket

from tests.attacks.places import Places

TITLE = "a source route"
TRIES = "Sets IP_OPTIONS, so that packets for an allowed address go by another host."
PROMISE = "network"
MUST_FAIL = "The filter knows the options that may be set by name."
LOOT = "a right"
LOOSE_ROUTE = b"\x83\x07\x04\xc0\x00\x02\x01\x00"


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, LOOSE_ROUTE)
    return "the way is chosen"
