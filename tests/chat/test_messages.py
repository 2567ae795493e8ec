"""Texts of agents and people in a message: shown as they are, and without any effect."""

import re

import hypothesis.strategies as st
from hypothesis import given

from gitlab_nightshift.chat.messages import (
    CUT_NOTE,
    LONGEST_MESSAGE,
    escape_text,
    format_code,
    format_diff,
    format_link,
    format_message,
)

SITE = "https://gitlab.example"


def test_markdown_mentions_and_links_are_escaped() -> None:
    hostile = "@everyone <@1> <#2> </x:3> [good](https://evil.example) `x` **b** ~~s~~ ||p|| # h"
    shown = escape_text(hostile, 500)
    assert "@everyone" not in shown and "://" not in shown
    assert not re.search(r"(?<!\\)[<>*~|`\[\]()#]", shown)
    assert shown.replace("\\", "").replace("\u200b", "") == hostile


def test_hidden_characters_and_line_ends_are_removed() -> None:
    assert escape_text("a\u202eb\u200bc\x00d\ue000\n\n- e\u2028f", 100) == "abcd - e f"


def test_nothing_ends_inline_code() -> None:
    assert format_code("a`b``c @here", 100) == "`a'b''c @\u200bhere`"
    assert format_code("", 10) == "` `"


def test_nothing_ends_the_code_block_of_a_diff() -> None:
    assert format_diff("-a\n+\t```@here\n", 100) == "```diff\n-a\n+ '''@\u200bhere\n```"
    cut = format_diff("+a\n+b\n" + "+c" * 60, 50)
    assert cut == f"```diff\n+a\n+b\n```\n{CUT_NOTE}"
    assert format_diff("+c" * 60, 50) == CUT_NOTE


def test_only_the_gitlab_is_linked() -> None:
    good = f"{SITE}/acme/shop/-/merge_requests/1"
    assert format_link(good, SITE) == f"<{good}>"
    for other in (
        "https://evil.example/x",
        f"{SITE}.evil.example/x",
        f"{SITE}@evil.example/x",
        f"{SITE}/x> https://evil.example/<",
        f"{SITE}/\n@everyone",
        "javascript:alert(1)",
    ):
        assert not format_link(other, SITE).startswith("<"), other


def test_a_long_message_says_that_it_is_cut() -> None:
    message = format_message(["first", *["x" * 400] * 10])
    assert (
        message.startswith("first\n")
        and message.endswith("\n…")
        and len(message) <= LONGEST_MESSAGE
    )


@given(st.lists(st.text(max_size=20), max_size=8))
def test_no_message_is_too_long(texts: list[str]) -> None:
    message = format_message([escape_text(text * 50, 500) for text in texts])
    assert len(message.encode("utf-16-le")) // 2 <= 2000


@given(st.text())
def test_no_text_pings_or_links(text: str) -> None:
    for shown in (escape_text(f"@{text}://", 100), format_code(f"@{text}://", 100)):
        assert not re.search(r"@(everyone|here|[0-9&!])", shown)
        assert "\n" not in shown
    assert "://" not in escape_text(f"http://{text}", 100)
