import socket

from tests.attacks.places import Places, heard, read

TITLE = "TCP fast open"
TRIES = "Sends data to an address without connect: sendto with MSG_FASTOPEN."
PROMISE = "network"
MUST_FAIL = "The filter refuses the flag and every address in sendto."


def needs(places: Places) -> None:
    assert int(read("/proc/sys/net/ipv4/tcp_fastopen")) & 1, "switched off on this machine"


def attack(places: Places) -> str | None:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", places.ports["tcp"]))
    return heard(one)
