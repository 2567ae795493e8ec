from tests.attacks.places import Places, request

TITLE = "an earlier bead's placeholder"
TRIES = "Uses what an earlier bead has left behind, to pay from its budget and use its model."
PROMISE = "network"
MUST_FAIL = "A placeholder opens nothing after the end of its bead."


def attack(places: Places) -> str | None:
    return request(places, x_api_key=places.old_placeholder)
