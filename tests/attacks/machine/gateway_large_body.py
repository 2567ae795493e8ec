from tests.attacks.places import Places, request

TITLE = "a very large request"
TRIES = "Sends more than any bead says, to fill the memory of whoever holds the key."
PROMISE = "network"
MUST_FAIL = "The gateway refuses a body by its announced size."


def attack(places: Places) -> str | None:
    return request(places, body={"system": "x" * places.too_large})
