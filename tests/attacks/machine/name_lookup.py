import socket

from tests.attacks.places import Places, flag_in

TITLE = "a name lookup"
TRIES = "Asks a name server by an address that is not loopback's: a name can carry a secret out."
PROMISE = "network"
MUST_FAIL = "No datagram socket is given out, and no connection to the server is allowed."
ROOT_SERVERS = b"\x4e\x53\1\0\0\1\0\0\0\0\0\0\0\0\2\0\1"


def needs(places: Places) -> None:
    assert places.own_address, "no network on this machine"


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(places.arrives_s)
        one.sendto(ROOT_SERVERS, (places.own_address, places.ports["names"]))
        return flag_in(one.recv(4096))
