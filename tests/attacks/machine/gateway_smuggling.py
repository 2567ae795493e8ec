from tests.attacks.places import Places, request

TITLE = "a request inside a request"
TRIES = "Says two lengths, so that the endpoint sees a second request with the real key."
PROMISE = "secrets"
MUST_FAIL = "The gateway refuses such heads, and writes its own to the endpoint."
INNER = b"0\r\n\r\nGET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"


def attack(places: Places) -> str | None:
    return request(places, body=INNER, transfer_encoding="chunked", content_length="5")
