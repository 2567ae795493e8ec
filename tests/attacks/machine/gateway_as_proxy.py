from tests.attacks.places import Places, request

TITLE = "the gateway as a proxy"
TRIES = "Asks for http://HOST:PORT/ in absolute form."
PROMISE = "network"
MUST_FAIL = "The gateway is no proxy: it answers its own paths only."


def attack(places: Places) -> str | None:
    return request(places, f"http://127.0.0.1:{places.ports['tcp']}/", "GET")
