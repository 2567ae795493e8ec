from tests.attacks.places import Places, request

TITLE = "a placeholder of its own invention"
TRIES = "Asks the gateway with a key that looks right, and with none."
PROMISE = "network"
MUST_FAIL = "The gateway answers 401 to whatever is no open bead's placeholder."


def attack(places: Places) -> str | None:
    guesses = ("sk-ant-placeholder-" + "0" * 48, "", places.placeholder[:-1])
    return " ".join(filter(None, (request(places, x_api_key=guess) for guess in guesses)))
