from tests.attacks.places import Places, request

TITLE = "other paths of the provider"
TRIES = "Asks for keys of the organization, files and batches, which the real key may open."
PROMISE = "secrets"
MUST_FAIL = "The gateway knows the model's paths only."
PATHS = (
    "/v1/organizations/api_keys",
    "/v1/files",
    "/v1/messages/batches",
    "/v1/messages/../files",
    "/v1/messages/%2e%2e/files",
    "//v1/files",
)


def attack(places: Places) -> str | None:
    found = [request(places, path, method) for path in PATHS for method in ("GET", "POST")]
    return " ".join(filter(None, found))
