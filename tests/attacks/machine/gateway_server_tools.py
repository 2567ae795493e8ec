from tests.attacks.places import Places, request

TITLE = "tools that run at the provider"
TRIES = "Lets the provider fetch an address or search for it: the request carries a secret out."
PROMISE = "network"
MUST_FAIL = "The gateway passes on tools that run here, by name of their type."
KINDS = ("web_fetch_20250910", "web_search_20250305", "code_execution_20250825")


def attack(places: Places) -> str | None:
    tools = [[{"type": kind, "name": kind[:9]}] for kind in KINDS]
    return " ".join(filter(None, (request(places, body={"tools": one}) for one in tools)))
