from tests.attacks.places import Places, reach_unix

TITLE = "the system's message bus"
TRIES = "Greets D-Bus: it starts programs for whoever may ask."
PROMISE = "network"
MUST_FAIL = "It is a socket outside the agent's folders, whatever its mode."


def attack(places: Places) -> str | None:
    return reach_unix(places.sockets["dbus"], b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n")
