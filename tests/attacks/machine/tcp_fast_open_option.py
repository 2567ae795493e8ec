import socket

from tests.attacks.places import Places

TITLE = "TCP fast open by an option"
TRIES = "Sets TCP_FASTOPEN_CONNECT: connect returns at once, the first write connects."
PROMISE = "network"
MUST_FAIL = "The filter knows the options that may be set by name."
LOOT = "a right"
FASTOPEN_CONNECT = 30


def needs(places: Places) -> None:
    attack(places)


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.IPPROTO_TCP, FASTOPEN_CONNECT, 1)
    return "the option is set"
