import ctypes

from tests.attacks.places import Places, call, flag_in

TITLE = "a key of the persistent keyring"
TRIES = "Asks for the keyring that outlives sessions, and searches it."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses keyctl; another user has another keyring."
PERSISTENT, SEARCH, READ, PROCESS = 22, 10, 11, -2


def needs(places: Places) -> None:
    call(places, "keyctl", 0, PROCESS, 1)
    call(places, "keyctl", PERSISTENT, -1, PROCESS)


def attack(places: Places) -> str | None:
    call(places, "keyctl", 0, PROCESS, 1)
    ring = call(places, "keyctl", PERSISTENT, -1, PROCESS)
    name = f"persistent-{places.scene}".encode()
    key = call(places, "keyctl", SEARCH, ring, b"user", name, 0)
    buffer = ctypes.create_string_buffer(100)
    call(places, "keyctl", READ, key, buffer, 100)
    return flag_in(buffer.raw)
