from tests.attacks.places import Places, request

TITLE = "servers that the provider talks to"
TRIES = "Names an MCP server, and a container at the provider."
PROMISE = "network"
MUST_FAIL = "The gateway knows the parts of a request by name and refuses those."


def attack(places: Places) -> str | None:
    server = {"type": "url", "url": "https://evil.example/", "name": "x"}
    bodies = ({"mcp_servers": [server]}, {"container": "container_1"})
    return " ".join(filter(None, (request(places, body=body) for body in bodies)))
