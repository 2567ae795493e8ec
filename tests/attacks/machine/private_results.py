import os

from tests.attacks.places import Places, flag_in

TITLE = "the night's own results by climbing up"
TRIES = "Walks from the checkout upwards, one open folder at a time, and down into the results."
PROMISE = "secrets"
MUST_FAIL = "What is collected while agents live lies in a private folder."


def attack(places: Places) -> str | None:
    here = os.open(places.checkout, os.O_PATH)
    for name in ("..", "outside", "results"):
        here = os.open(name, os.O_PATH, dir_fd=here)
    return flag_in(os.read(os.open("result.json", os.O_RDONLY, dir_fd=here), 100))
