"""Answers that do not report their usage are billed at their worst case."""

from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.records.usage import Usage
from tests.gateway.counting import has_no_request, request_bytes, usd
from tests.gateway.tools import STREAM, RawEndpoint, client, delta, ended, events, head, started
from tests.support.trees import wait_for

LIMIT = 2000
"""Tokens of each answer."""
PAGE = head(502, "text/html") + b"<h1>Bad gateway</h1>"
ENDINGS: dict[str, tuple[bytes, int, int]] = {
    "complete": (STREAM + events(started(500), delta("a"), ended(70)), 570, 0),
    "reported twice": (STREAM + events(started(500), ended(70), ended(70)), 570, 0),
    "more the second time": (STREAM + events(started(500), ended(70), ended(90)), 590, 0),
    "no end": (STREAM + events(started(500), delta("a")), 501, LIMIT - 1),
    "an error instead of the end": (
        STREAM + events(started(500), {"type": "error", "error": {"type": "overloaded_error"}}),
        501,
        LIMIT - 1,
    ),
    "nothing of the output": (STREAM + events(started(500), ended(0)), 501, LIMIT - 1),
    "no usage": (STREAM + events(delta("a")), 0, LIMIT),
    "nothing at all": (STREAM, 0, LIMIT),
    "packed": (head(200, "text/event-stream", "Content-Encoding: gzip") + b"\x1f\x8b", 0, LIMIT),
    "a page": (head(200, "text/html") + b"<h1>Sign in</h1>", 0, LIMIT),
    "broken JSON": (head(200, "application/json") + b'{"usage": {"output_tokens": 5', 0, LIMIT),
    "a proxy's own timeout": (head(504, "text/html") + b"<h1>Timeout</h1>", 0, LIMIT),
    "a proxy's timeout of 408": (head(408, "application/json") + b"{}", 0, LIMIT),
    "another success": (head(202, "application/json") + b"{}", 0, LIMIT),
    "a refusal": (head(400, "application/json") + b"{}", 0, 0),
    "a failure that the endpoint itself reports": (head(500, "application/json") + b"{}", 0, 0),
    "a failure of a proxy": (head(500, "text/html") + b"<h1>Oops</h1>", 0, LIMIT),
}
"""Answer → tokens that are reported, tokens of output that are assumed."""


def bill(answer: bytes) -> Usage:
    with (
        RawEndpoint(lambda connection, number: connection.sendall(answer)) as endpoint,
        client(endpoint.url) as agent,
    ):
        agent.raw(request_bytes(agent, stream=True).replace(b"Host", b"Connection: close\r\nHost"))
        wait_for(lambda: has_no_request(agent), "no request is left")
        return agent.gateway.close_bead(agent.ticket)


def test_an_answer_without_an_end_is_billed_at_its_worst_case() -> None:
    for name, (answer, tokens, output) in ENDINGS.items():
        usage = bill(answer)
        assumed_input = 0 if tokens or not output else usage.assumed_tokens - output
        assert 0 <= assumed_input < 1300, name
        assert (usage.tokens or 0) - usage.assumed_tokens == tokens, name
        assert usage.assumed_tokens - assumed_input == output, name
        assert usage.assumed_usd >= output * 15e-6, name


def test_each_lost_try_is_billed_until_the_budget_ends() -> None:
    """If a connection breaks without an answer, one may have been produced."""
    with (
        RawEndpoint(lambda connection, number: None) as endpoint,
        client(endpoint.url, budget_usd=0.1, limits=GatewayLimits(retry_first_s=0.001)) as agent,
    ):
        status, answer = agent.ask()
        assert (status, "budget is reached" in answer["error"]["message"]) == (400, True)
        usage = agent.gateway.close_bead(agent.ticket)
        assert agent.gateway.is_exhausted(agent.ticket)
    produced_usd = len(endpoint.requests) * LIMIT * 15e-6
    assert len(endpoint.requests) == 3
    assert produced_usd <= usd(usage) == usage.assumed_usd <= 0.1 + 3000 * 15e-6
