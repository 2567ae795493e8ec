"""Fields that an endpoint refuses are left out; an answer's limit is then enforced otherwise."""

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

import pytest

from tests.gateway.tools import STREAM, Client, RawEndpoint, client, json_answer
from tests.support.turns import JsonObject

MODEL = "coder"
PATH = "/v1/chat/completions"
NAMES = ("max_completion_tokens", "max_tokens")
REQUEST = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
DONE = b"data: [DONE]\n\n"
Refuse = Callable[[JsonObject], Mapping[str, Any] | None]


def chunk(text: str, reason: str | None = None) -> bytes:
    event = {"choices": [{"delta": {"content": text}, "finish_reason": reason}]}
    return f"data: {json.dumps(event)}\n\n".encode()


HELLO = chunk("Hel") + chunk("lo", "stop")
ANSWER = HELLO + DONE
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}\n\n'


class Server(RawEndpoint):
    """Refuses a body with status 400 and the error of ``refuse``, if any, else sends ``answer``."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __init__(self, refuse: Refuse, answer: bytes = ANSWER) -> None:
        self.refuse, self.answer = refuse, answer
        super().__init__(self.reply)

    def reply(self, connection: socket.socket, number: int) -> None:
        if error := self.refuse(self.bodies[number - 1]):
            json_answer(400, error)(connection, number)
        else:
            connection.sendall(STREAM + self.answer)

    @property
    def bodies(self) -> list[JsonObject]:
        return [json.loads(raw.partition(b"\r\n\r\n")[2] or b"{}") for raw in self.requests]

    @property
    def limits(self) -> list[dict[str, int]]:
        """The limit in each request."""
        return [{key: body[key] for key in NAMES if key in body} for body in self.bodies]


def connect(
    server: Server, budget_tokens: int | None = 1_000_000
) -> AbstractContextManager[Client]:
    return client(
        server.url,
        variable="OPENAI_API_KEY",
        models=(MODEL,),
        budget_usd=None,
        budget_tokens=budget_tokens,
    )


def ask(agent: Client, **body: object) -> tuple[int, Any]:
    return agent.ask({**REQUEST, **body}, PATH)


def knows(*names: str) -> Refuse:
    """Refuses limits of other names."""

    def refuse(body: JsonObject) -> Mapping[str, Any] | None:
        unknown = [name for name in NAMES if name in body and name not in names]
        text = f"Unrecognized request argument supplied: {''.join(unknown)}"
        return {"error": {"message": text}} if unknown else None

    return refuse


EXTRA = {"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"]}
UNSUPPORTED = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
OPENAI_LIMIT, OTHER_LIMIT = {"max_completion_tokens": 8000}, {"max_tokens": 8000}


def test_the_smaller_of_both_limits_is_sent() -> None:
    with Server(knows(*NAMES)) as server:
        for budget in (None, 100_000, 5000):
            with connect(server, budget) as agent:
                assert ask(agent, max_completion_tokens=8000)[0] == 200
        unlimited, large, small = (limits["max_completion_tokens"] for limits in server.limits)
        assert (unlimited, large) == (8000, 8000)
        assert 4000 < small < 5000


@pytest.mark.parametrize(
    ("refuse", "sent", "limits"),
    [
        (knows("max_tokens"), OPENAI_LIMIT, [OPENAI_LIMIT, OTHER_LIMIT]),
        (knows("max_completion_tokens"), OTHER_LIMIT, [OTHER_LIMIT, OPENAI_LIMIT]),
        (
            lambda body: {"detail": [EXTRA]} if "max_completion_tokens" in body else None,
            OPENAI_LIMIT,
            [OPENAI_LIMIT, OTHER_LIMIT],
        ),
        (
            lambda body: {"error": {"message": UNSUPPORTED}} if "max_tokens" in body else None,
            OTHER_LIMIT,
            [OTHER_LIMIT, OPENAI_LIMIT],
        ),
        (knows(), OPENAI_LIMIT, [OPENAI_LIMIT, OTHER_LIMIT, {}]),
    ],
)
def test_a_name_that_an_endpoint_refuses_is_replaced_for_the_whole_night(
    refuse: Refuse, sent: dict[str, int], limits: list[dict[str, int]]
) -> None:
    with Server(refuse) as server, connect(server) as agent:
        for _ in range(2):
            assert ask(agent, **sent) == (200, ANSWER.decode())
        assert server.limits == [*limits, limits[-1]]


def test_other_refusals_are_passed_on() -> None:
    error = {"error": {"message": "unknown field response_format"}}
    with Server(lambda body: error) as server, connect(server) as agent:
        assert ask(agent, max_completion_tokens=8000) == (400, error)
        assert len(server.requests) == 1


def has_context(tokens: int) -> Refuse:
    """Refuses a limit that does not fit into the context, as vLLM does."""
    text = f"'max_completion_tokens' is too large. This model's maximum context length is {tokens}"

    def refuse(body: JsonObject) -> Mapping[str, Any] | None:
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        return {"error": {"message": text}} if limit > tokens else None

    return refuse


def test_a_limit_that_the_agent_chose_is_not_changed() -> None:
    with Server(has_context(4096)) as server, connect(server) as agent:
        assert ask(agent, max_completion_tokens=8000)[0] == 400
        assert ask(agent, max_completion_tokens=2000)[0] == 200


def test_a_limit_that_only_the_budget_added_is_removed_if_refused() -> None:
    """codex sends no limit; without the budget's, the answer's bytes are counted."""
    with Server(has_context(4096)) as server, connect(server, 100_000) as agent:
        for _ in range(2):
            assert ask(agent)[0] == 200
        assert server.limits == [{"max_completion_tokens": 32_000}, {}, {}]


# --- other fields --------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
THOUGHTS = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
GRAMMAR = "Failed to initialize samplers: failed to parse grammar"
OTHERS: dict[str, tuple[str, JsonObject, Mapping[str, Any]]] = {
    "Mistral: stream_options": (
        "stream_options",
        {},
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "input": {}}]},
    ),
    "older Azure: stream_options": (
        "stream_options",
        {},
        {"error": {"message": "Unrecognized request argument supplied: stream_options"}},
    ),
    "DeepSeek: response_format": (
        "response_format",
        {"response_format": FORMAT},
        {"error": {"message": "This response_format type is unavailable now"}},
    ),
    "llama.cpp: response_format": (
        "response_format",
        {"response_format": FORMAT},
        {"error": {"code": 400, "message": GRAMMAR}},
    ),
    "vLLM: parallel_tool_calls": (
        "parallel_tool_calls",
        {"tools": [TOOL], "parallel_tool_calls": True},
        {"object": "error", "message": "parallel_tool_calls: Extra inputs are not permitted"},
    ),
    "Groq: thoughts that go back": (
        "reasoning_content",
        {"messages": [THOUGHTS, *REQUEST["messages"]]},  # type: ignore[misc]
        {"error": {"message": "'messages.0': property 'reasoning_content' is unsupported"}},
    ),
}


@pytest.mark.parametrize("server", OTHERS)
def test_a_field_that_an_endpoint_refuses_is_left_out_for_the_whole_night(server: str) -> None:
    name, body, error = OTHERS[server]
    with (
        Server(lambda sent: error if name in json.dumps(sent) else None) as server_,
        connect(server_) as agent,
    ):
        for _ in range(2):
            assert ask(agent, max_completion_tokens=8000, **body)[0] == 200
        assert [name in json.dumps(sent) for sent in server_.bodies] == [True, False, False]
        [model] = agent.ask(None, "/v1/models", "GET")[1]["data"]
        assert model["refused"] == [name]


def test_a_refusal_of_tools_is_passed_on_and_listed() -> None:
    error = {"error": f"{MODEL} does not support tools"}
    with (
        Server(lambda body: error if "tools" in body else None) as server,
        connect(server) as agent,
    ):
        assert ask(agent, max_completion_tokens=8000, tools=[TOOL]) == (400, error)
        assert ask(agent, max_completion_tokens=8000)[0] == 200
        [model] = agent.ask(None, "/v1/models", "GET")[1]["data"]
        assert model["refused"] == ["tools"]


def test_fields_that_an_error_repeats_are_not_refused() -> None:
    error = {"detail": [{"msg": "Field required", "input": {"stream_options": 1, "tools": 2}}]}
    with Server(lambda body: error) as server, connect(server) as agent:
        assert ask(agent, max_completion_tokens=8000, tools=[TOOL]) == (400, error)
        assert len(server.requests) == 1


# --- a limit in bytes ----------------------------------------------------------------------------


class Flood(Server):
    """Knows no limit, and never ends its answer."""

    def reply(self, connection: socket.socket, number: int) -> None:
        if self.refuse(self.bodies[number - 1]):
            super().reply(connection, number)
            return
        connection.sendall(STREAM)
        for _ in range(10_000):
            connection.sendall(chunk("x" * 1000))


def flood(budget: int) -> tuple[int, list[str]]:
    """The tokens that are billed, and the notes."""
    with Flood(knows()) as server, connect(server, budget) as agent:
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(agent, max_completion_tokens=2000)
        usage = agent.gateway.close_bead(agent.ticket)
        assert usage.tokens == usage.assumed_tokens
        return usage.assumed_tokens, agent.notes


def test_an_answer_without_any_limit_is_cut_off_by_its_bytes() -> None:
    tokens, notes = flood(1_000_000)
    assert "the endpoint takes no limit, and it has 8000 bytes" in " ".join(notes)
    assert 8000 <= tokens <= 8000 + 2500, "a token has at least one byte"


def test_no_answer_exceeds_a_budget_by_more_than_its_prompt() -> None:
    tokens, notes = flood(4000)
    assert "takes no limit" in " ".join(notes)
    assert tokens <= 4000 + 2500


def test_an_answer_without_any_limit_has_to_be_a_stream() -> None:
    with Server(knows()) as server, connect(server) as agent:
        status, answer = ask(agent, stream=False, max_completion_tokens=2000)
        assert (status, answer["error"]["message"]) == (
            400,
            "this endpoint limits no answer: ask for a stream",
        )


# --- an endpoint without usage -------------------------------------------------------------------


def test_a_complete_answer_without_usage_costs_at_most_its_bytes() -> None:
    with Server(knows(*NAMES)) as server, connect(server) as agent:
        for _ in range(3):
            assert ask(agent, max_completion_tokens=8000)[0] == 200
        text = "this endpoint reports no usage: its tokens are at most the bytes sent and received"
        assert agent.notes.count(f"model gateway, analyze: {text}") == 1
        usage = agent.gateway.close_bead(agent.ticket)
        assert usage.tokens == usage.assumed_tokens
        assert 3 * (len("Hello") + 5) <= (usage.tokens or 0) <= 3 * 2_500


def test_missing_usage_is_noted_once_for_all_beads() -> None:
    with Server(knows(*NAMES)) as server, connect(server) as agent:
        for bead in ("analyze", "implement"):
            agent.ticket = agent.gateway.open_bead(bead, {MODEL}, budget_usd=None)
            assert ask(agent, max_completion_tokens=8000)[0] == 200
        assert len([note for note in agent.notes if "reports no usage" in note]) == 1


def test_half_an_answer_without_usage_is_billed_at_its_worst_case() -> None:
    with Server(knows(*NAMES), chunk("Hel")) as server, connect(server) as agent:
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(agent, max_completion_tokens=8000)
        assert (agent.gateway.close_bead(agent.ticket).tokens or 0) > 8000


def test_reported_usage_is_billed() -> None:
    with Server(knows(*NAMES), HELLO + USAGE + DONE) as server, connect(server) as agent:
        assert ask(agent, max_completion_tokens=8000)[0] == 200
        assert agent.gateway.close_bead(agent.ticket).tokens == 13
