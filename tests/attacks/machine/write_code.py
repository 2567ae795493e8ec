from tests.attacks.places import Places, plant, planted

TITLE = "this program's own code"
TRIES = "Appends to a module in site-packages, which runs with the token afterwards."
PROMISE = "files"
MUST_FAIL = "An installation is read-only to agents, and never inside the checkout."


def attack(places: Places) -> str | None:
    return plant(places.files["code"])


def seen(places: Places) -> bool:
    return planted(places.files["code"])
