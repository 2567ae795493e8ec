"""Makes agents' text harmless for GitLab: pure functions from any string to a safe one.

What GitLab acts on in text that is posted with a token, and what this module does about it:

==================================================  ===========================================
quick actions (``/merge`` at the start of a line)   the slash is escaped
mentions and references (``@all #1 !1 ~x &1 %1``)   a zero-width space (Markdown) or a plain space
                                                    (titles, commits) after the sign
closing patterns (``Closes #1``), obeyed inside code, too  a dash between the verb and the reference
images, links, HTML, entities, own headings         shown as the characters that they are
tables, rulers, front matter, TOC, math             the same
bare URLs (cross references, one-click bait)        shown, not linked
``[skip ci]`` and its like                          in parentheses
hidden characters, bidi marks, controls             removed
==================================================  ===========================================

Kept are paragraphs, lists, bold, code spans and fenced blocks; blocks only with the language of a
short list, since GitLab draws diagrams and runs queries for some names.
"""

import re
import unicodedata

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import remove_hidden, unify_line_ends

WEB_ADDRESS = compile_lazily(r"https?://(\[[\da-fA-F:.]+\])?[\w./:~%#-]+")
"""URLs that may become links, also of a server without a name, such as ``http://[::1]:8080/``."""

ZWSP = "&#8203;"
"""A zero-width space, which keeps what follows it from being a reference or a link."""
LANGUAGES = frozenset(
    """bash c cpp cs csharp css diff dockerfile go groovy haskell html ini java javascript js json
    kotlin lua make perl php powershell properties python rb ruby rust sbt scala sh shell sql swift
    text toml ts tsx typescript xml yaml""".split()
)
CUT = "…"

# GitLab skips the pipeline for [ci skip] and [skip ci] (lib/gitlab/ci/pipeline/chain/skip.rb);
# other systems know other words. \s, not a space: line breaks in a title become spaces later.
_CI_DIRECTIVE = compile_lazily(
    r"\[\s*((?:skip|ci|no)[\s_-]+(?:skip|ci|actions?|pipelines?))\s*\]", re.I
)
# GitLab's default issue closing pattern, and Jira keys, which its Jira integration closes alike.
_CLOSING = compile_lazily(
    r"\b((?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?)"
    r"(\s+)"
    r"(?=(?:issues?\s+)?(?:[\w./-]*[#!]\d|https?://|\[\w+:|(?-i:[A-Z][A-Z0-9_]+-\d)))",
    re.I,
)
# Names of standards that look like Jira keys, as in "Fix UTF-8".
_STANDARD_NAME = compile_lazily(r"(?:UTF|SHA|MD|ISO|RFC|CVE|AES|RSA|IPV|HTTP)-\d", re.I)
# A code span ends with as many backticks as it begins with (spec.commonmark.org, 6.1).
_CODE_SPAN = compile_lazily(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
# An opening code fence with its language (spec.commonmark.org, 4.5).
_FENCE = compile_lazily(r"^(\s*)(`{3,}|~{3,})\s*([\w+#-]*)[^`]*$")
# Markers of list items, perhaps of nested lists (spec.commonmark.org, 5.2).
_LIST_MARKERS = compile_lazily(r"(?:(?:[-+*]|\d{1,9}[.)])\s+)*")
# A quick action is a line that begins with a slash; also escaped after list and quote markers.
_QUICK_ACTION = compile_lazily(r"^(\s*(?:(?:[-+*>]|\d{1,9}[.)])\s+)*)/(?=\w)")
# Thematic breaks, setext underlines (spec.commonmark.org, 4.1 and 4.3) and rows of tables.
_RULER = compile_lazily(r"[-=*_:|+\s]+")
# What begins Markdown, HTML, an autolink (github.github.com/gfm, 6.9) or a reference of GitLab's.
_SPECIAL = compile_lazily(r"[\\`<>&\[\]|_~#@!%^$]|:(?=//)|www(?=\.)|\bGL-(?=\d)", re.I)


def clean(text: str) -> str:
    """The text without hidden characters, CI directives and closing patterns; line ends are
    ``\\n``, tabs are four spaces."""
    # NFC: a combining mark must not split a word that a pattern looks for.
    text = unicodedata.normalize("NFC", text)
    text = remove_hidden(unify_line_ends(text), keep="\n")
    text = _CI_DIRECTIVE.sub(r"(\1)", text)
    return _CLOSING.sub(_break_closing_pattern, text)


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, ending in ``…`` where something was left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + CUT


def to_markdown(text: str, limit: int = 4000) -> str:
    """Several lines of Markdown: lists, bold and code stay, actions and references are disabled.

    ``limit`` counts characters before escaping.
    """
    lines = cut(clean(text).strip("\n"), limit).split("\n")
    return "\n".join(_escape_blocks(lines)).strip("\n")


def to_markdown_line(text: str, limit: int = 500) -> str:
    """The text as Markdown on one line, for a list item or a sentence."""
    return _escape_line(cut(" ".join(clean(text).split()), limit))


def to_table_cell(text: str, limit: int) -> str:
    """The text as Markdown in a cell of a table. GitLab splits rows at ``|`` even inside code
    spans, so a text with ``|`` gets no code spans."""
    line = cut(" ".join(clean(text).split()), limit)
    return _escape_text(line) if "|" in line else _escape_line(line)


def to_plain_text(text: str) -> str:
    """Several lines that are not Markdown (a commit message), actions and references disabled."""
    lines = clean(text).split("\n")
    return "\n".join(_break_references(line).rstrip() for line in lines).strip("\n")


def to_plain_line(text: str, limit: int = 200) -> str:
    """One line that is not Markdown (a title)."""
    line = " ".join(_break_references(" ".join(clean(text).split())).split())
    return cut(line, limit)


def to_code_span(text: str, limit: int = 300) -> str:
    """Text as an inline code span, even if it has backticks."""
    return _format_code_span(cut(" ".join(clean(text).split()), limit))


def _break_closing_pattern(match: re.Match[str]) -> str:
    if _STANDARD_NAME.match(match.string, match.end()):
        return match[0]
    return f"{match[1]}{match[2]}\N{EN DASH} "


def _break_references(line: str) -> str:
    """The line with a space after each sign that begins a reference."""
    # GitLab's references: @user, #issue, !merge request, &epic, $snippet, ~label, %milestone,
    # [vulnerability:1], GL-1 (docs.gitlab.com/user/markdown, GitLab-specific references).
    line = re.sub(r"(?<!\w)@(?=\w)", "@ ", line)
    line = re.sub(r"([#!&$])(?=\d)", r"\1 ", line)
    line = re.sub(r"(?<![\w/])~(?=[\w\"])", "~ ", line)
    line = re.sub(r"(?<!\w)%(?=[\d\"]|\w\w)", "% ", line)  # not %s: a format, no milestone
    line = re.sub(r"&(?=#?\w+;)", "& ", line)
    line = re.sub(r"\[(?=\w+:\S)", "[ ", line)
    line = re.sub(r"\bGL-(?=\d)", "GL- ", line, flags=re.I)
    return line.replace("://", ": //").replace("<!--", "< !--")


# --- Markdown ---------------------------------------------------------------------------------


def _escape_blocks(lines: list[str]) -> list[str]:
    escaped: list[str] = []
    index = 0
    while index < len(lines):
        end = _find_code_block_end(lines, index)
        if end is None:
            escaped.append(_escape_line(lines[index]))
            index += 1
        else:
            escaped += _render_code_block(lines[index], lines[index + 1 : end])
            index = end + 1
    return escaped


def _find_code_block_end(lines: list[str], start: int) -> int | None:
    """The index of the line that closes the block opened at ``start``; None if none opens there, or
    if it is never closed: GitLab would show everything after it as code."""
    opening = _FENCE.match(lines[start])
    if not opening:
        return None
    fence = opening[2]
    for index in range(start + 1, len(lines)):
        line = lines[index].strip()
        if len(line) >= len(fence) and set(line) == {fence[0]}:
            return index
    return None


def _render_code_block(first_line: str, lines: list[str]) -> list[str]:
    opening = _FENCE.match(first_line)
    indent, language = (len(opening[1]), opening[3].lower()) if opening else (0, "")
    body = [_escape_code_line(_dedent_line(line, indent)) for line in lines]
    fence = "`" * max(3, _measure_backticks("\n".join(body)) + 1)
    return [fence + (language if language in LANGUAGES else ""), *body, fence]


def _measure_backticks(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def _dedent_line(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _escape_code_line(line: str) -> str:
    """A line of a code block. Older versions of GitLab search even code for ``/word``."""
    return _QUICK_ACTION.sub(r"\1\\/", _break_comments(line.rstrip()))


def _break_comments(code: str) -> str:
    """Code without the start of a comment: this program searches raw text for its own marker."""
    return code.replace("<!--", "<! --")


def _escape_line(line: str) -> str:
    body = line.strip()
    if not body:
        return ""
    markers = _LIST_MARKERS.match(body)
    start = markers.end() if markers and not _RULER.fullmatch(body) else 0
    indent = " " * (len(line) - len(line.lstrip(" ")))
    prefix, text = indent + body[:start], body[start:]
    # _escape_text escapes "_" and "|" itself.
    if _RULER.fullmatch(text) and text[0] not in "_|":
        return f"{prefix}\\{_escape_text(text)}"
    escaped = _escape_inline(text)
    return f"{prefix}\\{escaped}" if escaped.startswith("/") else f"{prefix}{escaped}"


def _escape_inline(text: str) -> str:
    escaped: list[str] = []
    end = 0
    for match in _CODE_SPAN.finditer(text):
        span = _format_code_span(match[2]) or _escape_text(match[0])
        escaped += [_escape_text(text[end : match.start()]), span]
        end = match.end()
    return "".join([*escaped, _escape_text(text[end:])])


def _format_code_span(content: str) -> str:
    content = _break_comments(content)
    delimiter = "`" * (_measure_backticks(content) + 1)
    pad = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{delimiter}{pad}{content}{pad}{delimiter}" if content.strip() else ""


def _escape_text(text: str) -> str:
    return _SPECIAL.sub(
        lambda match: _escape_sign(match[0], text[match.end() : match.end() + 1]), text
    )


def _escape_sign(sign: str, following: str) -> str:
    # A backslash keeps punctuation from being Markdown (spec.commonmark.org, 2.4), but GitLab looks
    # for references after removing it: these also need something between sign and name.
    refers = following.isalnum() or following in ("_", '"', "'", "{", "`", "~", "$", "\\")
    gap = ZWSP if following and refers else ""
    if sign in "\\`]|_":
        return f"\\{sign}"
    if sign in "[~$":
        return f"\\{sign}{gap}"
    if sign in "<>":
        return "&lt;" if sign == "<" else "&gt;"
    if sign == "&":
        return f"&amp;{gap}"
    if sign in "#@":
        return f"{sign}{ZWSP}" if following.strip() or sign == "#" else sign
    return f"{sign}{gap}" if sign in "!%^" else f"{sign}{ZWSP}"
