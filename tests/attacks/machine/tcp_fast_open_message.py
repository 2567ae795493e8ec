import socket

from tests.attacks.places import Places, heard, read

TITLE = "TCP fast open by sendmsg"
TRIES = "The address stands in a structure in memory, where no filter can look."
PROMISE = "network"
MUST_FAIL = "The filter refuses the flag; without it TCP takes no address."


def needs(places: Places) -> None:
    assert int(read("/proc/sys/net/ipv4/tcp_fastopen")) & 1, "switched off on this machine"


def attack(places: Places) -> str | None:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    address = ("127.0.0.1", places.ports["tcp"])
    one.sendmsg([b"x"], [], socket.MSG_FASTOPEN, address)
    return heard(one)
