import socket
import struct

from tests.attacks.places import Places

TITLE = "netlink"
TRIES = "Asks the kernel for its network devices; with rights it would change routes."
PROMISE = "network"
MUST_FAIL = "The filter knows three families of sockets."
LOOT = "a right"
GET_LINK, DUMP = 18, 0x301


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as one:
        one.send(struct.pack("=IHHIIB3x", 20, GET_LINK, DUMP, 1, 0, 0))
        return f"{len(one.recv(65536))} bytes about devices"
