import socket

from tests.attacks.places import Places, flag_in

TITLE = "another service's port"
TRIES = "Listens on the port of a running service beside it (SO_REUSEPORT) and gets its clients."
PROMISE = "network"
MUST_FAIL = "The monitor lets nobody listen where somebody outside the tree listens."


def attack(places: Places) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        thief.bind(("127.0.0.1", places.ports["shared"]))
        thief.listen()
        thief.settimeout(places.arrives_s)
        found = None
        while not found:
            guest, _ = thief.accept()
            with guest:
                found = flag_in(guest.recv(100))
    return found
