import socket

from tests.attacks.places import Places, reach

TITLE = "a service on loopback by IPv6"
TRIES = "Connects to ::1."
PROMISE = "network"
MUST_FAIL = "The same rules by either family."


def needs(places: Places) -> None:
    assert "tcp6" in places.ports, "no IPv6 on this machine"


def attack(places: Places) -> str | None:
    return reach("::1", places.ports["tcp6"], socket.AF_INET6)
