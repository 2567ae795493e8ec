from tests.attacks.places import Places, reach_unix

TITLE = "the Docker engine's socket"
TRIES = "Asks the engine for its containers: whoever may, is root on the machine."
PROMISE = "network"
MUST_FAIL = "It is a socket outside the agent's folders, whatever its mode."


def attack(places: Places) -> str | None:
    return reach_unix(places.sockets["docker"], b"GET /info HTTP/1.0\r\n\r\n")
