"""Makes agents' text harmless for GitLab: pure functions from any string to a safe one.

What GitLab acts on in text that is posted with a token, and what is done about it here:

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

GAP = "&#8203;"
"""A zero-width space, which keeps what follows from being a reference or a link."""
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
# What looks like a Jira key but is the name of a standard, as in "Fix UTF-8".
_NO_ISSUE = compile_lazily(r"(?:UTF|SHA|MD|ISO|RFC|CVE|AES|RSA|IPV|HTTP)-\d", re.I)
# A code span ends at a run of as many backticks as it began with (spec.commonmark.org, 6.1).
_SPAN = compile_lazily(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
# An opening code fence with its language (spec.commonmark.org, 4.5).
_FENCE = compile_lazily(r"^(\s*)(`{3,}|~{3,})\s*([\w+#-]*)[^`]*$")
# Markers of list items, perhaps of one list in another (spec.commonmark.org, 5.2).
_MARKS = compile_lazily(r"(?:(?:[-+*]|\d{1,9}[.)])\s+)*")
# A quick action is a line that begins with a slash; also escaped after list and quote markers.
_ACTION = compile_lazily(r"^(\s*(?:(?:[-+*>]|\d{1,9}[.)])\s+)*)/(?=\w)")
# Thematic breaks, setext underlines (spec.commonmark.org, 4.1 and 4.3) and rows of tables.
_RULER = compile_lazily(r"[-=*_:|+\s]+")
# What begins Markdown, HTML, an autolink (github.github.com/gfm, 6.9) or a reference of GitLab's.
_SIGN = compile_lazily(r"[\\`<>&\[\]|_~#@!%^$]|:(?=//)|www(?=\.)|\bGL-(?=\d)", re.I)


def clean(text: str) -> str:
    """The text's words without what hides or acts: line ends are ``\\n``, tabs are four spaces."""
    # Composed letters: a combining mark must not part a word that a pattern looks for.
    text = unicodedata.normalize("NFC", text)
    text = remove_hidden(unify_line_ends(text), keep="\n")
    text = _CI_DIRECTIVE.sub(r"(\1)", text)
    return _CLOSING.sub(_break_closing_pattern, text)


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, ending in ``…`` where something was left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + CUT


def to_markdown(text: str, limit: int = 4000) -> str:
    """Several lines of Markdown: lists, bold and code stay, nothing acts or refers.

    ``limit`` counts characters before escaping.
    """
    lines = cut(clean(text).strip("\n"), limit).split("\n")
    return "\n".join(_escape_blocks(lines)).strip("\n")


def to_markdown_line(text: str, limit: int = 500) -> str:
    """The text as Markdown on one line, to stand in a list item or a sentence."""
    return _escape_line(cut(" ".join(clean(text).split()), limit))


def to_table_cell(text: str, limit: int) -> str:
    """The text as Markdown in a cell of a table. GitLab splits rows at ``|`` even inside code
    spans, so a text with one gets no spans."""
    line = cut(" ".join(clean(text).split()), limit)
    return _escape_text(line) if "|" in line else _escape_line(line)


def to_plain_text(text: str) -> str:
    """Several lines that are not Markdown (a commit message): nothing acts or refers."""
    lines = clean(text).split("\n")
    return "\n".join(_break_references(line).rstrip() for line in lines).strip("\n")


def to_plain_line(text: str, limit: int = 200) -> str:
    """One line that is not Markdown (a title)."""
    line = " ".join(_break_references(" ".join(clean(text).split())).split())
    return cut(line, limit)


def to_code_span(text: str, limit: int = 300) -> str:
    """Text as an inline code span, whatever backticks it has."""
    return _format_code_span(cut(" ".join(clean(text).split()), limit))


def _break_closing_pattern(match: re.Match[str]) -> str:
    if _NO_ISSUE.match(match.string, match.end()):
        return match[0]
    return f"{match[1]}{match[2]}\N{EN DASH} "


def _break_references(line: str) -> str:
    """The line with a space between each sign and what it would refer to."""
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
    done: list[str] = []
    at = 0
    while at < len(lines):
        end = _find_code_block_end(lines, at)
        if end is None:
            done.append(_escape_line(lines[at]))
            at += 1
        else:
            done += _render_code_block(lines[at], lines[at + 1 : end])
            at = end + 1
    return done


def _find_code_block_end(lines: list[str], start: int) -> int | None:
    """The line that closes the block opened at ``start``; None if none opens there, or if it stays
    open: GitLab would show all that follows as code."""
    opened = _FENCE.match(lines[start])
    if not opened:
        return None
    mark = opened[2]
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if len(line) >= len(mark) and set(line) == {mark[0]}:
            return number
    return None


def _render_code_block(opening: str, lines: list[str]) -> list[str]:
    opened = _FENCE.match(opening)
    indent, language = (len(opened[1]), opened[3].lower()) if opened else (0, "")
    body = [_escape_code_line(_dedent_line(line, indent)) for line in lines]
    runs = re.findall("`+", "\n".join(body))
    fence = "`" * max(3, max(map(len, runs), default=0) + 1)
    return [fence + (language if language in LANGUAGES else ""), *body, fence]


def _dedent_line(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _escape_code_line(line: str) -> str:
    """A line of a block. Code does not act, but older GitLabs look for ``/word`` by a pattern."""
    return _ACTION.sub(r"\1\\/", _break_comments(line.rstrip()))


def _break_comments(code: str) -> str:
    """Code without the start of a comment: our own marker is searched for in the raw text."""
    return code.replace("<!--", "<! --")


def _escape_line(line: str) -> str:
    body = line.strip()
    if not body:
        return ""
    marks = _MARKS.match(body)
    start = marks.end() if marks and not _RULER.fullmatch(body) else 0
    before, rest = " " * (len(line) - len(line.lstrip(" "))) + body[:start], body[start:]
    # _escape_text escapes "_" and "|" itself.
    if _RULER.fullmatch(rest) and rest[0] not in "_|":
        return f"{before}\\{_escape_text(rest)}"
    done = _escape_inline(rest)
    return f"{before}\\{done}" if done.startswith("/") else f"{before}{done}"


def _escape_inline(text: str) -> str:
    done: list[str] = []
    at = 0
    for match in _SPAN.finditer(text):
        span = _format_code_span(match[2]) or _escape_text(match[0])
        done += [_escape_text(text[at : match.start()]), span]
        at = match.end()
    return "".join([*done, _escape_text(text[at:])])


def _format_code_span(content: str) -> str:
    content = _break_comments(content)
    mark = "`" * (max(map(len, re.findall("`+", content)), default=0) + 1)
    pad = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{mark}{pad}{content}{pad}{mark}" if content.strip() else ""


def _escape_text(text: str) -> str:
    return _SIGN.sub(
        lambda match: _escape_sign(match[0], text[match.end() : match.end() + 1]), text
    )


def _escape_sign(sign: str, following: str) -> str:
    # A backslash keeps punctuation from being Markdown (spec.commonmark.org, 2.4), but GitLab looks
    # for references in what is left of it: these also need something between sign and name.
    refers = following.isalnum() or following in ("_", '"', "'", "{", "`", "~", "$", "\\")
    gap = GAP if following and refers else ""
    if sign in "\\`]|_":
        return f"\\{sign}"
    if sign in "[~$":
        return f"\\{sign}{gap}"
    if sign in "<>":
        return "&lt;" if sign == "<" else "&gt;"
    if sign == "&":
        return f"&amp;{gap}"
    if sign in "#@":
        return f"{sign}{GAP}" if following.strip() or sign == "#" else sign
    return f"{sign}{gap}" if sign in "!%^" else f"{sign}{GAP}"
