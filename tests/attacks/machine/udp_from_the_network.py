import socket

from tests.attacks.places import Places, flag_in

TITLE = "datagrams from the network"
TRIES = "Takes a UDP port of the machine's own address, and what others send to it."
PROMISE = "network"
MUST_FAIL = "Only loopback can be bound to; a namespace has nothing else."


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(places.arrives_s)
        one.bind((places.own_address, places.ports["dropped"]))
        return flag_in(one.recv(100))
