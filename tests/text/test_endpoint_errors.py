"""What endpoints say of a failure, each in its own form."""

import json

import pytest

from gitlab_nightshift.text.endpoint_errors import (
    find_pause_s,
    is_empty_account,
    parse_error,
    refuses_tools,
)

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
def test_each_form_has_its_words(server: str) -> None:
    assert parse_error(json.dumps(FORMS[server]))[1] == "why"


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", "5", "[" * 99_999, '{"error": {}}'])
def test_without_words_there_are_none(body: str) -> None:
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
HASTE = {
    "Gemini": (
        "You exceeded your current quota, please check your plan and billing details."
        " Please retry in 34.07s."
    ),
    "OpenAI": "Rate limit reached for gpt in organization x on tokens per minute (TPM)",
    "vLLM": "Too many requests",
}


@pytest.mark.parametrize("server", EMPTY)
def test_an_empty_account_is_known(server: str) -> None:
    assert is_empty_account(json.dumps({"error": {"message": EMPTY[server]}}))


@pytest.mark.parametrize("server", HASTE)
def test_haste_is_no_empty_account(server: str) -> None:
    assert not is_empty_account(json.dumps({"error": {"message": HASTE[server]}}).encode())


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
def test_a_pause_that_is_asked_for(text: str, seconds: float) -> None:
    assert find_pause_s(text.encode()) == seconds


NO_TOOLS = {
    "Ollama": "registry.ollama.ai/library/gemma:2b does not support tools",
    "llama.cpp": "tools param requires --jinja flag",
    "vLLM": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
    "OpenRouter": "No endpoints found that support tool use",
    "LiteLLM": "UnsupportedParamsError: x does not support parameters: ['tools']",
}


@pytest.mark.parametrize("server", NO_TOOLS)
def test_a_server_without_tool_calls_is_known(server: str) -> None:
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
