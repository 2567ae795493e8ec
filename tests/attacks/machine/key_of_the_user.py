import ctypes

from tests.attacks.places import Places, call, flag_in

TITLE = "a key of the user's keyring"
TRIES = "Links the keyring of the user, which all sessions of the user share, and searches it."
PROMISE = "secrets"
MUST_FAIL = "The filter refuses keyctl; another user has another keyring."
LINK, SEARCH, READ, USER, PROCESS = 8, 10, 11, -4, -2


def needs(places: Places) -> None:
    call(places, "keyctl", 0, USER, 1)


def attack(places: Places) -> str | None:
    call(places, "keyctl", 0, PROCESS, 1)
    call(places, "keyctl", LINK, USER, PROCESS)
    name = f"user-{places.scene}".encode()
    key = call(places, "keyctl", SEARCH, PROCESS, b"user", name, 0)
    buffer = ctypes.create_string_buffer(100)
    call(places, "keyctl", READ, key, buffer, 100)
    return flag_in(buffer.raw)
