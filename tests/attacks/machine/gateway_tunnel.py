from tests.attacks.places import Places, request

TITLE = "a tunnel through the gateway"
TRIES = "Sends CONNECT HOST:PORT."
PROMISE = "network"
MUST_FAIL = "The gateway is no proxy: it answers its own paths only."


def attack(places: Places) -> str | None:
    return request(places, f"127.0.0.1:{places.ports['tcp']}", "CONNECT")
