import ctypes
import socket

from tests.attacks.places import Places, checked, heard, libc

TITLE = "an allowed connection, connected again"
TRIES = "Connects to the gateway, dissolves the connection (AF_UNSPEC) and connects elsewhere."
PROMISE = "network"
MUST_FAIL = "The monitor judges every connect, and lets a socket be connected once."


def attack(places: Places) -> str | None:
    with socket.create_connection(("127.0.0.1", places.gateway), 2) as way:
        way.setblocking(True)
        checked(libc.connect(way.fileno(), ctypes.create_string_buffer(16), 16))
        way.connect(("127.0.0.1", places.ports["tcp"]))
        return heard(way)
