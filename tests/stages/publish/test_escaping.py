"""Any text of an agent becomes one that does nothing in GitLab."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gitlab_nightshift.stages.publish.escaping import (
    ZWSP,
    clean,
    cut,
    to_code_span,
    to_markdown,
    to_markdown_line,
    to_plain_line,
    to_plain_text,
    to_table_cell,
)

WORDS = """/merge / @all @ #1 # !1 ! ![x](https://e.invalid/x.png) [a](b) <b> <!-- --> ` `` ``` ~~~
    | --- === :- :--| \\ &#64; & * ** _ ~x $x$ $ % ^ a word 1. - + > >>> http://x.y www.x.y [^1]
    [[_TOC_]] <script> <details> `@all` {: ::: GL-1 Closes Fixes: a@b.cd""".split()
SPACES = ["\n", "\n\n", "\r", " ", "    ", "\t", "\u200b", "\u202e", "\u2028", "\x00", "\ud800"]
BLOCKS = ["```\n/merge\n```\n", "- /merge", "1. /close", "[skip ci]"]
PIECES = st.sampled_from([*WORDS, *SPACES, *BLOCKS])
ANYTHING = st.text(max_size=300) | st.lists(PIECES, max_size=25).map("".join)
FORBIDDEN = {"html_block", "html_inline", "image", "link_open", "hr", "table_open", "s_open"}
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def tokens(markdown: str) -> Iterator[Token]:
    for token in READER.parse(markdown):
        yield from (token, *(token.children or ()))


def shown(markdown: str) -> str:
    """What a reader sees outside of code, zero-width spaces included, a line for each block."""
    blocks = (each.children or () for each in READER.parse(markdown) if each.type == "inline")
    return "\n".join(
        "".join(each.content if each.type == "text" else "\n" for each in block) for block in blocks
    )


@given(ANYTHING)
@example("a\n/merge")
@example("- /merge\n1. /close\n> /approve")
@example("```\n/merge")
@example("```\r- /0\r```")
@example("x\n:-\n`@all | y")
@example("`a | @all`\n|-|-|")
def test_markdown_never_acts(text: str) -> None:
    done = to_markdown(text)
    lines = done.splitlines()
    assert not [line for line in lines if re.match(r"\s*(?:(?:[-+*>]|\d+[.)])\s+)*/\w", line)]
    assert "<!--" not in done
    around = list(tokens(f"## A\n\n{done}\n\n## B\n"))
    kinds = [each.type for each in around]
    assert not FORBIDDEN.intersection(kinds)
    assert kinds.count("heading_open") == 2, "the text closes what it opens, and has no headings"
    assert not re.search(r"[@#!~%&^$]\w|://|www\.", shown(done))


@given(ANYTHING)
def test_outside_of_blocks_no_line_begins_with_a_slash(text: str) -> None:
    without_blocks = to_markdown(re.sub("[`~]", "", text))
    for line in (to_markdown_line(text), *without_blocks.splitlines()):
        assert not line.strip().startswith("/")


@given(ANYTHING, st.integers(1, 50))
def test_lines_are_lines_and_bounded(text: str, limit: int) -> None:
    assert len(to_markdown_line(text).splitlines()) <= 1
    plain = to_plain_line(text, limit)
    assert len(plain.splitlines()) <= 1
    assert len(plain) <= limit
    assert not re.search(r"(?<!\w)@\w|[#!]\d|://|<!--", plain)


@given(ANYTHING)
def test_nothing_hidden_is_left(text: str) -> None:
    for done in (clean(text), to_markdown(text), to_plain_text(text), to_code_span(text)):
        done.encode()  # no lone surrogate
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]", done)


@given(ANYTHING)
def test_code_spans_hold_all_and_nothing_else(text: str) -> None:
    done = to_code_span(text)
    found = list(tokens(f"a {done} b")) if done else []
    assert "<!--" not in done
    if found:
        assert [each.type for each in found if each.type == "code_inline"] == ["code_inline"]
        assert "".join(each.content for each in found if each.type == "text") == "a  b"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("/merge", r"\/merge"),
        ("  /approve", r"  \/approve"),
        ("* /close", r"* \/close"),
        ("> /close", "&gt; /close"),
        ("ping @all", f"ping @{ZWSP}all"),
        ("see #12 and !7", f"see #{ZWSP}12 and !{ZWSP}7"),
        ("g/p#12", f"g/p#{ZWSP}12"),
        ("~bug &3 %4 $5", rf"\~{ZWSP}bug &amp;{ZWSP}3 %{ZWSP}4 \${ZWSP}5"),
        ("&#64;all", f"&amp;#{ZWSP}64;all"),
        ("# Verification", f"#{ZWSP} Verification"),
        ("Verification\n---", "Verification\n\\---"),
        ("Verification\n===", "Verification\n\\==="),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("![x](https://e.invalid/?d=1)", rf"!\[{ZWSP}x\](https:{ZWSP}//e.invalid/?d=1)"),
        ("[vulnerability:1]", rf"\[{ZWSP}vulnerability:1\]"),
        ("a|b", r"a\|b"),
        ("__init__", r"\_\_init\_\_"),
        ("Closes #4", f"Closes – #{ZWSP}4"),
        ("a **bold** word", "a **bold** word"),
        ("- one\n  - two\n1. three", "- one\n  - two\n1. three"),
        ("see `a_b @x #1`", "see `a_b @x #1`"),
        ("`` a`b ``", "`` a`b ``"),
        ("a ` b", r"a \` b"),
        ("` ` /merge", r"\` \` /merge"),
        ("C# is 100% fine!", f"C#{ZWSP} is 100% fine!"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\u202eb\u200bc\x00d", "abcd"),
        ("", ""),
    ],
)
def test_markdown(text: str, safe: str) -> None:
    assert to_markdown(text) == safe


def test_a_reader_sees_the_same_words() -> None:
    text = "A_b [x] <y> & 'z' \\n {k} | ~ $ ^ *"
    assert shown(to_markdown(text)).replace("\u200b", "") == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("```python\nx = '@all'\n```", "```python\nx = '@all'\n```"),
        ("~~~ sh\nls\n~~~", "```sh\nls\n```"),
        ("```mermaid\ngraph\n```", "```\ngraph\n```"),
        ("```glql\nx\n```", "```\nx\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("  ```\n  a\n    b\n  ```", "```\na\n  b\n```"),
        ("```\n/merge\n// note\n/* c */\n```", "```\n\\/merge\n// note\n/* c */\n```"),
        ("```\n<!-- nightshift: {} -->\n```", "```\n<! -- nightshift: {} -->\n```"),
    ],
)
def test_fenced_blocks(text: str, safe: str) -> None:
    assert to_markdown(text) == safe


def test_a_block_that_is_cut_stays_no_block() -> None:
    done = to_markdown("```\n" + "x" * 100 + "\n```", 50)
    assert done.startswith(r"\`\`\`")
    assert done.endswith("…")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Closes #1", "Closes – # 1"),
        ("fix: #1", "fix: – # 1"),
        ("Fixes issue #1", "Fixes – issue # 1"),
        ("Resolves group/app#12", "Resolves – group/app# 12"),
        ("Implements https://gitlab.example/g/p/-/issues/1", None),
        ("closes ABC-12", "closes – ABC-12"),
        ("Fix UTF-8 handling", "Fix UTF-8 handling"),
        ("fix python-3 support", "fix python-3 support"),
        ("Closes\n#1", "Closes – # 1"),
        ("ask @ada", "ask @ ada"),
        ("mail ada@example.invalid", "mail ada@example.invalid"),
        ("[skip ci] x", "(skip ci) x"),
        ("x [ CI-Skip ]", "x (CI-Skip)"),
        ("[[[skip ci]]]", "[[(skip ci)]]"),
        ("x [skip\nci]", "x (skip ci)"),
        ("x [skip\u00a0ci]", "x (skip ci)"),
        ('for %3, %"v 1" and %v1, not 5% or %s', 'for % 3, % "v 1" and % v1, not 5% or %s'),
        ("GL-12 and !3", "GL- 12 and ! 3"),
        ("a\n\nb\tc", "a b c"),
    ],
)
def test_plain(text: str, safe: str | None) -> None:
    done = to_plain_line(text)
    assert not re.search(
        r"(?i)(clos|fix|resolv|implement)\w*:? +\S*(#\d|://|[A-Z]{3}-\d)", done
    ) or ("python-3" in text or "UTF-8" in text)
    if safe is not None:
        assert done == safe


def test_closing_patterns_do_not_hide_in_code() -> None:
    assert "Closes #1" not in to_markdown("`Closes #1`\n```\nCloses #1\n```")


def test_cut_says_so() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"


@given(ANYTHING)
@example("`a | b`")
@example("`a\\|b` \\| c")
@example("](https://e.invalid) | `")
def test_a_cell_of_a_table_stays_one(text: str) -> None:
    row = f"| [{to_table_cell(text, 200)}](https://gitlab.example/1) | last |"
    found = list(tokens(f"| a | b |\n|---|---|\n{row}\n"))
    assert [each.type for each in found].count("td_open") == 2
    links = [each.attrs["href"] for each in found if each.type == "link_open"]
    assert links == ["https://gitlab.example/1"]
    assert [each.content for each in found if each.type == "inline"][-1] == "last"
