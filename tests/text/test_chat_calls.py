"""Tool calls from the pieces of a stream, as servers send them."""

from typing import Any

import pytest

from gitlab_nightshift.text.chat_calls import ChatCalls

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
