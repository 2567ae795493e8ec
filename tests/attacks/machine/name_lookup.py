import re
import socket

from tests.attacks.places import Places, read

TITLE = "a name lookup"
TRIES = "Asks the machine's name server: a name can carry a secret out."
PROMISE = "network"
MUST_FAIL = "No datagram socket is given out, and no connection to the server is allowed."
LOOT = "a right"
ROOT_SERVERS = b"\x4e\x53\1\0\0\1\0\0\0\0\0\0\0\0\2\0\1"


def needs(places: Places) -> None:
    assert attack(places), "no answer"


def attack(places: Places) -> str | None:
    server = re.search(rb"^nameserver\s+(\S+)", read("/etc/resolv.conf"), re.MULTILINE)
    assert server, "no name server"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(20)
        one.sendto(ROOT_SERVERS, (server[1].decode(), 53))
        return f"{len(one.recv(4096))} bytes of an answer"
