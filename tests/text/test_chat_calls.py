"""Tool calls in a model's answer, those of a stream and those written into its text."""

from typing import Any

import pytest

from gitlab_nightshift.text.chat_calls import MOST, ChatCalls, find_written_calls

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
    for part in SERVERS[server]:
        assert calls.add([part]) > 0
    assert [(call.name, call.parse_arguments()) for call in calls.calls] == [A, B]


def test_a_thought_signature_stays_with_its_call() -> None:
    calls, extra = ChatCalls(9), {"google": {"thought_signature": "x"}}
    calls.add([{**piece(0, "1", "read", "{}"), "extra_content": extra}])
    assert calls.calls[0].extra == extra


@pytest.mark.parametrize("given", [None, 5, "x", [5], [{}], [{"function": 5}], [[]]])
def test_anything_may_come(given: object) -> None:
    calls = ChatCalls(9)
    calls.add(given)
    assert [call.parse_arguments() for call in calls.calls] in ([], [{}])


def test_their_number_is_bounded() -> None:
    calls = ChatCalls(2)
    for number in range(5):
        calls.add([piece(number, str(number), "read", "{}")])
    assert (len(calls.calls), calls.more) == (2, 3)


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
def test_each_form_is_read(text: str) -> None:
    assert find_written_calls(text) == (READ,)


def test_several_calls_keep_their_order() -> None:
    text = (
        '```tool\n{"tool": "a", "arguments": {}}\n```\n<tool_call>{"name": "b", "input": {"x": 1}}'
    )
    assert find_written_calls(text) == (("a", {}), ("b", {"x": 1}))


def test_line_ends_within_a_string_are_taken() -> None:
    text = '```tool\n{"tool": "edit", "arguments": {"new": "a\nb"}}\n```'
    assert find_written_calls(text) == (("edit", {"new": "a\nb"}),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("```python\nprint(1)\n```", ()),
        ("```tool\nnothing\n```", (("", None),)),
        ('```tool\n{"tool": 5}\n```', (("", None),)),
        ("```tool\n[1]\n```", (("", None),)),
        ("```tool\n" + "[" * 100_000, (("", None),)),
    ],
)
def test_any_text_is_read(text: str, found: tuple[object, ...]) -> None:
    assert find_written_calls(text) == found


def test_the_number_of_written_calls_is_bounded() -> None:
    assert len(find_written_calls('```tool\n{"tool": "a"}\n```\n' * (MOST + 5))) == MOST
