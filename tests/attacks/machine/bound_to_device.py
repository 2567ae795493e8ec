import socket

from tests.attacks.places import Places

TITLE = "a socket bound to a device"
TRIES = "Sets SO_BINDTODEVICE, so that an allowed address leads elsewhere."
PROMISE = "network"
MUST_FAIL = "The filter knows the options that may be set by name."
LOOT = "a right"


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    return "the device is chosen"
