"""The gateway's JSON: what is sent on is what was read, and every reader reads the same."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.request_body import RequestRefusal, read_object, write_object
from tests.fuzz.strategies import json_of, spoiled_bytes, steady

WORDS = frozenset({"model", "messages", "max_tokens", "tools", "stream"})
HONEST = b'{"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}'
ENCODED = json_of(WORDS).map(json.dumps).map(str.encode)
RAW = st.binary(max_size=80) | spoiled_bytes(HONEST) | ENCODED


def strict(text: str) -> Any:
    """A reader that takes no number which JSON does not know."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} was sent")

    return json.loads(text, parse_constant=refuse)


@steady(80)
@given(RAW)
@example(b'{"a": 1e999}')
@example(b'{"a": -1e999}')
@example(b'{"a": 1, "a": 2}')
@example(b'{"a": "\\ud800"}')
@example(b'{"a": ' + b"9" * 5000 + b"}")
def test_what_was_read_is_what_is_sent(raw: bytes) -> None:
    try:
        value = read_object(raw, GatewayLimits())
    except RequestRefusal:
        return
    sent = write_object(value)
    assert strict(sent.decode()) == value
    assert read_object(sent, GatewayLimits()) == value
