from tests.attacks.places import Places, request

TITLE = "another host by its name"
TRIES = "Puts a service of the machine into the Host header."
PROMISE = "network"
MUST_FAIL = "The endpoint comes from the settings; the header is not looked at."


def attack(places: Places) -> str | None:
    found = request(places, host=f"127.0.0.1:{places.ports['tcp']}")
    return found if found and found.endswith("-tcp") else None
