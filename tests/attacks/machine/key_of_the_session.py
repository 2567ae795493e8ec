import ctypes

from tests.attacks.places import Places, call, flag_in

TITLE = "a key of the session's keyring"
TRIES = "Searches the keyring that the job's shell shares with all it starts."
PROMISE = "secrets"
MUST_FAIL = "The launcher joins a new keyring, and the filter refuses keyctl."
SEARCH, READ, SESSION = 10, 11, -3


def needs(places: Places) -> None:
    call(places, "keyctl", 0, SESSION, 0)


def attack(places: Places) -> str | None:
    name = f"session-{places.scene}".encode()
    key = call(places, "keyctl", SEARCH, SESSION, b"user", name, 0)
    buffer = ctypes.create_string_buffer(100)
    call(places, "keyctl", READ, key, buffer, 100)
    return flag_in(buffer.raw)
