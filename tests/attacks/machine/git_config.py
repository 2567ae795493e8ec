from tests.attacks.places import Places, flag_in, read

TITLE = "the real .git/config"
TRIES = "Reads the configuration that was moved aside: its remote has a token."
PROMISE = "secrets"
MUST_FAIL = "It lies beside the checkout, in a folder that no tier lets an agent read."


def attack(places: Places) -> str | None:
    return flag_in(read(places.files["git_config"]))
