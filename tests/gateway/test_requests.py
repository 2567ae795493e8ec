"""Requests that are refused, or from which fields are left out."""

import json
from typing import Any

import pytest

from gitlab_nightshift.gateway.anthropic import check_messages, filter_betas
from gitlab_nightshift.gateway.limits import GatewayLimits
from gitlab_nightshift.gateway.openai import check_chat, check_responses
from gitlab_nightshift.gateway.request_body import RequestRefusal, read_object, write_object
from tests.gateway.tools import MODEL, TOOL, client, message
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import say

URL = "https://evil.example/?secret"


def block(**keys: object) -> dict[str, Any]:
    return message(messages=[{"role": "user", "content": [keys]}])


def source(kind: str, **keys: object) -> dict[str, Any]:
    return block(type=kind, source=keys)


HOSTILE = {
    "another model": message(model="claude-opus-4-6"),
    "no model": {**message(), "model": None},
    "a model in a list": message(model=[MODEL]),
    "no limit": {**message(), "max_tokens": None},
    "a limit in words": message(max_tokens="5"),
    "a limit below one": message(max_tokens=0),
    "a limit that is true": message(max_tokens=True),
    "mcp servers": message(mcp_servers=[{"type": "url", "url": URL, "name": "x"}]),
    "a container": message(container="container_1"),
    "web search": message(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "web fetch": message(tools=[TOOL, {"type": "web_fetch_20250910", "name": "web_fetch"}]),
    "code execution": message(tools=[{"type": "code_execution_20250825", "name": "x"}]),
    "computer use": message(tools=[{"type": "computer_20250124", "name": "computer"}]),
    "an mcp toolset": message(tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}]),
    "a tool of no type": message(tools=[{**TOOL, "type": None}]),
    "a tool of a list": message(tools=[{**TOOL, "type": ["custom"]}]),
    "a tool without a schema": message(tools=[{"name": "web_search"}]),
    "a tool that is a text": message(tools=["web_search"]),
    "tools that are none": message(tools={"web_search": {}}),
    "an image by address": source("image", type="url", url=URL),
    "an image by file": source("image", type="file", file_id="file_1"),
    "a document by address": source("document", type="url", url=URL),
    "a document of blocks": source("document", type="content", content=[]),
    "a document of any number of pages": source("document", type="base64", data="JVBERi0="),
    "an upload": block(type="container_upload", file_id="file_1"),
    "a server's tool": block(type="server_tool_use", id="x", name="web_fetch", input={"url": URL}),
    "a server's result": block(type="web_fetch_tool_result", tool_use_id="x", content={}),
    "an mcp call": block(type="mcp_tool_use", id="x", name="n", server_name="s", input={}),
    "a search result": block(type="search_result", source=URL, title="t", content=[]),
    "an image in a result": block(
        type="tool_result",
        tool_use_id="x",
        content=[{"type": "image", "source": {"type": "url", "url": URL}}],
    ),
    "a call by code": block(
        type="tool_use", id="x", name="n", input={}, caller={"type": "code_execution_20250825"}
    ),
    "an image for the system": message(
        system=[{"type": "image", "source": {"type": "url", "url": URL}}]
    ),
    "a role": message(messages=[{"role": "tool", "content": "x"}]),
    "a message of null": message(messages=[None]),
    "messages of a text": message(messages="x"),
    "compaction": message(context_management={"edits": [{"type": "compact_20260112"}]}),
    "a stream of one": message(stream=1),
    "a temperature of a list": message(temperature=[1]),
}


def test_hostile_requests_are_refused() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        refusals = {name: agent.refusal(body) for name, body in HOSTILE.items()}
        assert [name for name, text in refusals.items() if URL in text] == []
        assert len(agent.notes) == len(set(refusals.values()))
        assert agent.gateway.usage(agent.ticket).tokens == 0
        assert agent.ask()[0] == 200
    assert len(endpoint.requests) == 1


def test_unknown_keys_are_left_out_and_noted() -> None:
    body = message(
        tools=[{**TOOL, "allowed_callers": ["code_execution_20250825"]}],
        inference_geo="us",
        speed="fast",
        service_tier="priority",
        metadata={"user_id": "u", "callback": "https://evil.example"},
    )
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        assert agent.ask(body)[0] == 200
        assert sorted(note.split("'")[1] for note in agent.notes) == [
            *("a tool.allowed_callers", "body.inference_geo", "body.service_tier", "body.speed"),
            "metadata.callback",
        ]
    sent = endpoint.messages[0].body
    assert sent == message(tools=[TOOL], metadata={"user_id": "u"})


def test_too_many_cache_marks_are_removed_from_the_beginning() -> None:
    def text(words: str, *, marked: bool = True) -> dict[str, object]:
        control = {"cache_control": {"type": "ephemeral"}} if marked else {}
        return {"type": "text", "text": words, **control}

    def build_request(*marked: bool) -> dict[str, object]:
        names = ("shared", "rest", "last")
        content = [text(name, marked=mark) for name, mark in zip(names, marked, strict=True)]
        system = [text("a"), text("b")]
        return message(system=system, messages=[{"role": "user", "content": content}])

    four, five = build_request(True, False, True), build_request(True, True, True)
    with ModelEndpoint([say("Hi")] * 3) as endpoint, client(endpoint.url) as agent:
        for body in (four, five, {**four, "cache_control": {"type": "ephemeral"}}):
            assert agent.ask(body)[0] == 200
    sent = [request.body for request in endpoint.messages]
    assert sent[0] == four, "four are allowed"
    assert sent[1] == build_request(False, True, True)
    assert sent[2]["messages"] == build_request(False, False, True)["messages"]


IMAGE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
CLI_REQUEST = message(
    system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    tools=[TOOL],
    tool_choice={"type": "auto"},
    thinking={"type": "adaptive"},
    context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    output_config={"effort": "high"},
    metadata={"user_id": "u"},
    temperature=0.5,
    stop_sequences=["x"],
    messages=[
        {"role": "user", "content": [{"type": "text", "text": 'ü "quoted" \ud800'}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {
                    "type": "tool_use",
                    "id": "1",
                    "name": "Bash",
                    "input": {"mcp_servers": [{"type": "url"}], "n": 1.5},
                    "caller": {"type": "direct"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "is_error": False,
                    "content": [
                        {"type": "text", "text": "out"},
                        {"type": "image", "source": IMAGE},
                        {"type": "document", "source": {**IMAGE, "type": "text"}},
                    ],
                }
            ],
        },
    ],
)


def test_a_request_of_the_cli_is_forwarded_unchanged() -> None:
    with ModelEndpoint([say("Hi")]) as endpoint, client(endpoint.url) as agent:
        assert agent.ask(CLI_REQUEST)[0] == 200
        assert agent.notes == []
    assert endpoint.messages[0].body == CLI_REQUEST


def test_only_known_betas_are_forwarded() -> None:
    header = "oauth-2025-04-20,effort-20991231,files-api-2025-04-14,context-1m-2025-08-07,effort"
    kept, dropped = filter_betas(header, {MODEL})
    assert kept == "oauth-2025-04-20,effort-20991231"
    assert dropped == ("files-api-2025-04-14", "context-1m-2025-08-07", "effort")
    assert filter_betas("context-1m-2025-08-07", {f"{MODEL}[1m]"})[0] == "context-1m-2025-08-07"
    assert check_messages(message(), {f"{MODEL}[1m]"}).model == MODEL


MESSAGES = [{"role": "user", "content": "Hello"}]
RESPONSES: dict[str, dict[str, Any]] = {
    "web search": {"tools": [{"type": "web_search", "external_web_access": False}]},
    "a file search": {"tools": [{"type": "file_search", "vector_store_ids": []}]},
    "an interpreter": {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
    "an mcp server": {"tools": [{"type": "mcp", "server_url": URL, "server_label": "x"}]},
    "a nested search": {
        "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]
    },
    "an image tool": {"tools": [{"type": "image_generation"}]},
    "a stored answer": {"previous_response_id": "resp_1"},
    "a conversation": {"conversation": "conv_1"},
    "a stored prompt": {"prompt": {"id": "pmpt_1"}},
    "the background": {"background": True},
    "a file by address": {
        "input": [{"role": "user", "content": [{"type": "input_file", "file_url": URL}]}]
    },
    "an image by address": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}]
    },
    "an image by file": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": None}]}]
    },
    "an image in an output": {
        "input": [
            {
                "type": "function_call_output",
                "call_id": "1",
                "output": [{"type": "input_image", "image_url": URL}],
            }
        ]
    },
    "a hosted tool in an item": {
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}
        ]
    },
    "a stored item": {"input": [{"type": "item_reference", "id": "msg_1"}]},
    "a search call": {"input": [{"type": "web_search_call", "id": "1", "action": {"url": URL}}]},
    "sources": {"include": ["web_search_call.action.sources"]},
    "a forced search": {"tool_choice": {"type": "web_search"}},
}


@pytest.mark.parametrize("name", RESPONSES)
def test_requests_of_responses_that_reach_out_are_refused(name: str) -> None:
    body = {"model": "gpt", "input": MESSAGES}
    assert check_responses(body, {"gpt"}).output_key == "max_output_tokens"
    with pytest.raises(RequestRefusal):
        check_responses({**body, **RESPONSES[name]}, {"gpt"})


CHATS: dict[str, dict[str, Any]] = {
    "web search": {"web_search_options": {"search_context_size": "high"}},
    "a plugin": {"plugins": [{"id": "web"}]},
    "a hosted tool": {"tools": [{"type": "web_search_preview"}]},
    "many answers": {"n": 5},
    "an image by address": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]}
        ]
    },
    "a file": {
        "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]
    },
    "audio": {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
    "two limits": {"max_tokens": 5, "max_completion_tokens": 5_000_000},
    "another model": {"model": "gpt:online"},
}


@pytest.mark.parametrize("name", CHATS)
def test_requests_of_chat_completions_that_reach_out_are_refused(name: str) -> None:
    body = {"model": "gpt", "messages": MESSAGES, "max_tokens": 10}
    assert check_chat(body, {"gpt"}).output_key == "max_tokens"
    with pytest.raises(RequestRefusal):
        check_chat({**body, **CHATS[name]}, {"gpt"})


def test_an_unknown_key_is_named_by_the_object_that_has_it() -> None:
    format_ = {"type": "json_schema", "json_schema": {"name": "mr", "schema": {}, "odd": 1}}
    body = {"model": "gpt", "messages": MESSAGES, "max_tokens": 10, "response_format": format_}
    assert check_chat(body, {"gpt"}).dropped == ("json_schema.odd",)


SMALL = GatewayLimits(body_parts=1000)
BAD_JSON = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "two objects": b"{}{}",
    "a key twice": b'{"model":"a","model":"b"}',
    "a key twice below": b'{"a":[{"type":"text","type":"image"}]}',
    "a key twice by an escape": b'{"model":"a","mod\\u0065l":"b"}',
    "no number": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "no UTF-8": b'{"a":"\xff"}',
    "UTF-16": json.dumps({"a": 1}).encode("utf-16"),
    "depth": b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
    "much depth": b'{"a":' + b"[" * 999 + b"]" * 999 + b"}",
    "many parts": b'{"a":[' + b"0," * 2000 + b"0]}",
    "a very long number": b'{"a":' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_ambiguous_json_is_refused(name: str) -> None:
    with pytest.raises(RequestRefusal):
        read_object(BAD_JSON[name], SMALL)


@pytest.mark.parametrize("value", [b"[" * 100_000 + b"]" * 100_000, b"9" * 100_000])
def test_json_that_could_exhaust_a_parser_is_refused(value: bytes) -> None:
    for raw in (b'{"temperature":' + value + b"}", b'{"tools":[{"input_schema":' + value + b"}]}"):
        with pytest.raises(RequestRefusal):
            read_object(raw, GatewayLimits())


def test_json_is_written_with_the_same_values() -> None:
    raw = b'{"a":[1.5,-0,1e3,true,null,"\\ud800 \xc3\xbc \\n"],"":{"\\u0000":12345678901234567890}}'
    assert json.loads(write_object(read_object(raw, SMALL))) == json.loads(raw)
