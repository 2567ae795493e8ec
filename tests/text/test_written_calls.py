"""Tool calls in a model's text, as chat templates write them."""

import pytest

from gitlab_nightshift.text.written_calls import MOST, find_written_calls

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


def test_their_number_is_bounded() -> None:
    assert len(find_written_calls('```tool\n{"tool": "a"}\n```\n' * (MOST + 5))) == MOST
