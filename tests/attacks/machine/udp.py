import contextlib
import os
import socket

from tests.attacks.places import Places, hit

TITLE = "UDP"
TRIES = "Sends datagrams to a service by every call that sends, with an address and connected."
PROMISE = "network"
MUST_FAIL = "A UDP socket that is given out is shut for sending; with an address nothing is sent."


def attack(places: Places) -> str | None:
    there = ("127.0.0.1", places.ports["udp"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for send in (
            lambda: one.sendto(b"x", there),
            lambda: one.sendmsg([b"x"], [], 0, there),
            lambda: one.connect(there),
            lambda: one.send(b"x"),
            lambda: os.write(one.fileno(), b"x"),
        ):
            with contextlib.suppress(OSError):
                send()
    return "sent"


def seen(places: Places) -> bool:
    return hit(places, "udp")
