"""Tool calls found in a model's answers: with and without a stream, cut off, and of any shape."""

import json
from typing import Any

from gitlab_nightshift.gateway.answer_reader import LARGEST_INPUT, MOST_OPEN, CallLog, CallReader
from gitlab_nightshift.records.usage import MOST_CALLS


def start(index: int, name: str, call_id: str = "t") -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def append(index: int, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def read(*events: Any) -> list[tuple[str, str]]:
    log = CallLog()
    reader = CallReader(log)
    for event in events:
        reader.read(event)
    reader.end()
    return [(call.tool, call.subject) for call in log.calls]


def test_a_stream_of_messages() -> None:
    one, two = '{"command": "make', ' test"}'
    path = '{"file_path": "/work/a.py"}'
    events = [start(0, "Bash"), append(0, one), start(1, "Read"), append(0, two), append(1, path)]
    assert read(*events, stop(0), stop(1)) == [("Bash", "make test"), ("Read", "/work/a.py")]


def test_a_stream_that_is_cut_or_out_of_order() -> None:
    assert read(start(0, "Bash"), append(0, '{"command": "ma')) == [("Bash", "")]
    assert read(append(0, "{}"), stop(0), stop(7), start(0, "Read"), stop(0)) == [("Read", "")]
    assert read(start(0, "Bash"), start(0, "Read"), stop(0)) == [("Bash", ""), ("Read", "")]


def test_answers_without_a_stream() -> None:
    content = [
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
    ]
    assert read({"type": "message", "content": content}) == [("Bash", "ls")]
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "shell",
        "arguments": json.dumps({"command": ["bash", "-lc", "make test"]}),
    }
    local = {"type": "local_shell_call", "call_id": "d", "action": {"command": ["git", "log"]}}
    custom = {"type": "custom_tool_call", "call_id": "e", "name": "apply_patch", "input": "***"}
    expected = [("shell", "make test"), ("local_shell", "git log"), ("apply_patch", "***")]
    assert read({"object": "response", "output": [call, local, custom]}) == expected
    done = [{"type": "response.output_item.done", "item": item} for item in (call, local, custom)]
    last = {"type": "response.completed", "response": {"output": [call, local, custom]}}
    assert read(*done, last) == expected, "the last event only repeats the items"


def piece(index: int, arguments: str, name: str = "", **fields: str) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    call = {"index": index, **fields, "function": function}
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


def test_calls_of_chat_completions_with_and_without_a_stream() -> None:
    events = [
        piece(0, "", id="a", name="Bash"),
        piece(0, '{"command": "make'),
        piece(1, '{"file_path": "/work/a.py"}', id="b", name="Read"),
        piece(0, ' test"}'),
    ]
    assert read(*events) == [("Bash", "make test"), ("Read", "/work/a.py")]
    assert read(*events[:2]) == [("Bash", "")], "the stream was cut off"
    function = {"name": "Bash", "arguments": '{"command": "ls"}'}
    message = {"content": "Hm.", "tool_calls": [{"id": "a", "function": function}]}
    assert read({"choices": [{"message": message}]}) == [("Bash", "ls")]
    log = CallLog()
    reader = CallReader(log)
    for number in range(MOST_CALLS + 5):
        reader.read(piece(number, "{}", id=str(number), name="Read"))
    reader.end()
    assert (len(log.calls), log.more) == (MOST_CALLS, 5)


def test_calls_in_the_text_count_if_there_are_no_others() -> None:
    text = '<tool_call>{"name": "Bash", "arguments": {"command": "ls"}}</tool_call>'
    pieces = [{"choices": [{"delta": {"content": part}}]} for part in (text[:30], text[30:])]
    assert read(*pieces) == [("Bash", "ls")]
    assert read(*pieces, piece(0, "{}", id="a", name="Read")) == [("Read", "")]


def test_the_commands_in_a_script_of_codex() -> None:
    lines = [f"text(await tools.exec_command({json.dumps({'cmd': c})}))" for c in ("a b", "c")]
    script = {"type": "custom_tool_call", "name": "exec", "input": "\n".join(lines)}
    assert read({"output": [script]}) == [("exec", "a b"), ("exec", "c")]
    unread = {**script, "input": "exec_command({cmd: x})"}
    assert read({"output": [unread]}) == [("exec", "exec_command({cmd: x})")]
    assert read({"output": [{**script, "input": None}]}) == [("exec", "")]


def test_calls_of_any_shape_are_read_and_bounded() -> None:
    events: list[Any] = [
        {},
        {"type": 7, "index": [], "content": {"a": 1}, "output": [None, 3, {"type": "tool_use"}]},
        {"type": "content_block_start", "index": 0, "content_block": "x"},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "response.output_item.done", "item": {"type": "function_call", "name": ["x"]}},
        {"content": [{"type": "tool_use", "name": "B\x1bash\n", "input": {"command": "x" * 9999}}]},
    ]
    calls = read(*events)
    assert calls[-1] == ("B ash", "x" * 300)
    assert all(len(tool) <= 100 and len(subject) <= 300 for tool, subject in calls)
    huge = [start(0, "Write"), append(0, '{"file_path": "' + "x" * LARGEST_INPUT), append(0, '"}')]
    assert read(*huge, stop(0)) == [("Write", "")]
    open_blocks = [start(n, "Bash") for n in range(MOST_OPEN * 3)]
    assert len(read(*open_blocks)) == MOST_OPEN
    log = CallLog()
    reader = CallReader(log)
    for _ in range(MOST_CALLS + 5):
        reader.read({"content": [{"type": "tool_use", "name": "Read", "input": {}}]})
    assert (len(log.calls), log.more) == (MOST_CALLS, 5)
