import os
from pathlib import Path

from tests.attacks.places import Places, reach_unix

TITLE = "the ssh agent"
TRIES = "Looks for an agent's socket by SSH_AUTH_SOCK and by name, and lets it list its keys."
PROMISE = "secrets"
MUST_FAIL = "The variable is not passed on, and the socket cannot be connected to."
LIST_KEYS = b"\0\0\0\1\x0b"


def attack(places: Places) -> str | None:
    path = os.environ.get("SSH_AUTH_SOCK", "")
    found = [path] if Path(path).is_socket() else [places.sockets["agent"]]
    return reach_unix(found[0], LIST_KEYS)
