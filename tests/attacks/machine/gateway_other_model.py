from tests.attacks.places import Places, request

TITLE = "another model"
TRIES = "Asks for a dearer model than the bead's."
PROMISE = "network"
MUST_FAIL = "A placeholder is good for its bead's models."


def attack(places: Places) -> str | None:
    return request(places, body={"model": "claude-opus-4-1-20250805"})
