"""Tool calls and errors in model endpoints' answers."""

import json
from typing import Any

import pytest

from gitlab_nightshift.text.endpoint_answers import (
    MOST_CALLS,
    ChatCalls,
    find_pause_s,
    find_written_calls,
    is_empty_account,
    parse_error,
    refuses_tools,
)

A, B = ("read", {"path": "a"}), ("read", {"path": "b"})


def piece(index: object, call_id: object = None, name: str = "", arguments: object = None) -> Any:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "id": call_id, "type": "function", "function": function}


SERVERS: dict[str, list[Any]] = {
    "OpenAI: pieces by their index": [
        piece(0, "1", "read", ""),
        piece(0, None, "", '{"path":'),
        piece(0, None, "", ' "a"}'),
        piece(1, "2", "read", '{"path": "b"}'),
    ],
    "Gemini: one index for all": [
        piece(0, "1", "read", '{"path": "a"}'),
        piece(0, "2", "read", '{"path": "b"}'),
    ],
    "Ollama: whole calls, arguments as objects": [
        piece(0, "1", "read", {"path": "a"}),
        piece(0, "2", "read", {"path": "b"}),
    ],
    "no ids and no index": [
        piece(None, None, "read", '{"path": "a"}'),
        piece(None, None, "read", '{"path": "b"}'),
    ],
    "an id and a name in every piece": [
        piece(0, "1", "read", '{"path": '),
        piece(0, "1", "read", '"a"}'),
        piece(1, "2", "read", '{"path": "b"}'),
    ],
}


@pytest.mark.parametrize("server", SERVERS)
def test_each_servers_pieces_make_the_same_calls(server: str) -> None:
    calls = ChatCalls(9)
    for sent in SERVERS[server]:
        assert calls.add([sent]) > 0
    assert [(call.name, call.parse_arguments()) for call in calls.calls] == [A, B]


def test_a_thought_signature_stays_with_its_call() -> None:
    calls, extra = ChatCalls(9), {"google": {"thought_signature": "x"}}
    calls.add([{**piece(0, "1", "read", "{}"), "extra_content": extra}])
    assert calls.calls[0].extra == extra


@pytest.mark.parametrize("tool_calls", [None, 5, "x", [5], [{}], [{"function": 5}], [[]]])
def test_malformed_tool_calls_do_no_harm(tool_calls: object) -> None:
    calls = ChatCalls(9)
    calls.add(tool_calls)
    assert [call.parse_arguments() for call in calls.calls] in ([], [{}])


def test_the_number_of_calls_is_bounded() -> None:
    calls = ChatCalls(2)
    for number in range(5):
        calls.add([piece(number, str(number), "read", "{}")])
    assert (len(calls.calls), calls.left_out) == (2, 3)


READ = ("read", {"path": "a.py"})


@pytest.mark.parametrize(
    "text",
    [
        'I look.\n```tool\n{"tool": "read", "arguments": {"path": "a.py"}}\n```',
        '```tool\n{"tool": "read", "path": "a.py"}\n```',
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}}\n</tool_call>',
        '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a.py"}}]',
        "<|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>"
        '{"path": "a.py"}<|call|>',
        '```tool\n{"function": {"name": "read", "parameters": {"path": "a.py"}}}\n```',
    ],
)
def test_each_written_form_is_read(text: str) -> None:
    assert find_written_calls(text) == (READ,)


def test_several_calls_keep_their_order() -> None:
    text = (
        '```tool\n{"tool": "a", "arguments": {}}\n```\n<tool_call>{"name": "b", "input": {"x": 1}}'
    )
    assert find_written_calls(text) == (("a", {}), ("b", {"x": 1}))


def test_a_string_may_contain_line_ends() -> None:
    text = '```tool\n{"tool": "edit", "arguments": {"new": "a\nb"}}\n```'
    assert find_written_calls(text) == (("edit", {"new": "a\nb"}),)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("", ()),
        ("```python\nprint(1)\n```", ()),
        ("```tool\nnothing\n```", (("", None),)),
        ('```tool\n{"tool": 5}\n```', (("", None),)),
        ("```tool\n[1]\n```", (("", None),)),
        ("```tool\n" + "[" * 100_000, (("", None),)),
    ],
)
def test_malformed_calls_have_no_arguments(text: str, calls: tuple[object, ...]) -> None:
    assert find_written_calls(text) == calls


def test_the_number_of_written_calls_is_bounded() -> None:
    assert len(find_written_calls('```tool\n{"tool": "a"}\n```\n' * (MOST_CALLS + 5))) == MOST_CALLS


FORMS = {
    "OpenAI": {"error": {"message": "why", "type": "x"}},
    "Ollama": {"error": "why"},
    "FastAPI, TGI": {"detail": "why"},
    "Mistral": {"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "why"}]},
    "vLLM": {"object": "error", "message": "why", "type": "BadRequestError", "code": 400},
    "Gemini": [{"error": {"code": 400, "message": "why", "status": "INVALID_ARGUMENT"}}],
    "OpenRouter": {"error": {"message": "why", "code": 402, "metadata": {}}},
}


@pytest.mark.parametrize("server", FORMS)
def test_the_message_is_found_in_each_form(server: str) -> None:
    assert parse_error(json.dumps(FORMS[server]))[1] == "why"


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", "5", "[" * 99_999, '{"error": {}}'])
def test_a_body_without_a_message_has_none(body: str) -> None:
    assert parse_error(body)[1] == ("5" if body == "5" else "")


EMPTY = {
    "OpenAI": (
        "You exceeded your current quota, please check your plan and billing details. For more"
        " information on this error, read the docs"
    ),
    "OpenRouter": "Insufficient credits. Add more using https://openrouter.ai/credits",
    "DeepSeek": "Insufficient Balance",
    "Moonshot": "Your account is suspended due to insufficient balance, please recharge",
}
RATE_LIMITS = {
    "Gemini": (
        "You exceeded your current quota, please check your plan and billing details."
        " Please retry in 34.07s."
    ),
    "OpenAI": "Rate limit reached for gpt in organization x on tokens per minute (TPM)",
    "vLLM": "Too many requests",
}


@pytest.mark.parametrize("server", EMPTY)
def test_an_empty_account_is_recognized(server: str) -> None:
    assert is_empty_account(json.dumps({"error": {"message": EMPTY[server]}}))


@pytest.mark.parametrize("server", RATE_LIMITS)
def test_a_rate_limit_is_no_empty_account(server: str) -> None:
    assert not is_empty_account(json.dumps({"error": {"message": RATE_LIMITS[server]}}).encode())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 34.07s.", 34.07),
        ('{"details": [{"retryDelay": "12s"}]}', 12),
        ("Please try again in 1.5s", 1.5),
        ("retry in ...s", 0),
        ("", 0),
    ],
)
def test_the_requested_pause_is_found(text: str, seconds: float) -> None:
    assert find_pause_s(text.encode()) == seconds


NO_TOOLS = {
    "Ollama": "registry.ollama.ai/library/gemma:2b does not support tools",
    "llama.cpp": "tools param requires --jinja flag",
    "vLLM": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
    "OpenRouter": "No endpoints found that support tool use",
    "LiteLLM": "UnsupportedParamsError: x does not support parameters: ['tools']",
}


@pytest.mark.parametrize("server", NO_TOOLS)
def test_a_server_without_tool_calls_is_recognized(server: str) -> None:
    assert refuses_tools(NO_TOOLS[server])


@pytest.mark.parametrize(
    "text",
    [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "messages.2.tool_calls: none answers this tool_call_id",
        "unknown field response_format",
        "context length exceeded",
    ],
)
def test_other_refusals_are_not_about_tools(text: str) -> None:
    assert not refuses_tools(text)
