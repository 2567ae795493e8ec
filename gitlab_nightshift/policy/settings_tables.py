"""Which tables and keys of a settings file differ between two versions: in a file with settings for
several tools, only some of its tables matter to a rule."""

import re
from collections.abc import Iterator
from functools import cache

from gitlab_nightshift.policy.settings_parser import LARGEST, list_leaves, parse_data
from gitlab_nightshift.text.lazy_patterns import compile_lazily

UNREADABLE = "the file cannot be read"
EVERYTHING = ("*",)
# An unclosed string ends with its line, an unclosed comment with the file: linear time.
_STRINGS = r"""("(?:\\[^\n]|[^"\n])*(?:"|$)|'(?:\\[^\n]|[^'\n])*(?:'|$))"""
_COMMENT = compile_lazily(rf"{_STRINGS}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_HASH_COMMENT = compile_lazily(r"#(?!!)")
_STRING = compile_lazily(_STRINGS, re.MULTILINE)
_LONGEST = 500
"""Characters of a key or a line. A longer one is made to hide something, or to take long: it always
counts as relevant."""


def list_changed_tables(
    path: str, old: bytes | None, new: bytes | None, tables: tuple[str, ...]
) -> list[str]:
    """The changed keys below ``tables``, as paths of :func:`list_leaves`; ``*`` in a table matches
    anything. A missing file has no keys; one that cannot be read counts as changed."""
    try:
        before, after = (dict(_pick_tables(path, side, tables)) for side in (old, new))
    except (ValueError, RecursionError):
        return [UNREADABLE]
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _pick_tables(
    path: str, data: bytes | None, tables: tuple[str, ...]
) -> Iterator[tuple[str, object]]:
    if data is None or not data.strip():
        return
    parsed = parse_data(path, data)
    if parsed is None:
        raise ValueError("no settings")
    found: dict[str, list[object]] = {}
    for key, value in list_leaves(parsed):
        if len(key) > _LONGEST or _compile_tables(tables).match(key):
            # As text, since True == 1, and NaN != NaN.
            found.setdefault(key, []).append(repr(value))
    yield from found.items()


@cache
def _compile_tables(tables: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(table).replace(r"\*", ".*") for table in tables)
    return re.compile(rf"(?:{names})(?:\.|$)", re.DOTALL)


def list_changed_blocks(
    old: bytes | None, new: bytes | None, heads: re.Pattern[str], *, c_comments: bool = False
) -> list[str]:
    """The changed blocks of a build script, by the match of ``heads`` in their first line. A block
    also has the lines below that are indented or inside its brackets. White space and comments do
    not count; ``c_comments``: they are as in C, else they begin with ``#``."""
    if max(len(old or b""), len(new or b"")) > LARGEST:
        return [UNREADABLE]
    before, after = (list(_list_blocks(side or b"", heads, c_comments)) for side in (old, new))
    if before == after:
        return []
    apart = {*before} ^ {*after}
    changed = [block for block in (*after, *before) if block in apart]
    return list(dict.fromkeys(block[0] for block in changed or after))


def _list_blocks(
    data: bytes, heads: re.Pattern[str], c_comments: bool
) -> Iterator[tuple[str, ...]]:
    text = data.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    if c_comments:
        text = _COMMENT.sub(lambda match: match[1] or "", text)
    lines = [line for line in text.expandtabs().splitlines() if not _has_no_code(line, c_comments)]
    at = 0
    while at < len(lines):
        end, long = at + 1, len(lines[at]) > _LONGEST
        if head := None if long else heads.search(lines[at]):
            end = _find_end(lines, at)
        if head or long:
            name = head[0].strip() if head else "a long line"
            yield (name, *(" ".join(line.split()) for line in lines[at:end]))
        at = end


def _has_no_code(line: str, c_comments: bool) -> bool:
    code = line.strip()
    return not code or (not c_comments and _HASH_COMMENT.match(code) is not None)


def _find_end(lines: list[str], at: int) -> int:
    depth, end = _count_open(lines[at]), at + 1
    opened = depth > 0
    while end < len(lines) and (depth > 0 or _read_indent(lines[end]) > _read_indent(lines[at])):
        depth += _count_open(lines[end])
        end += 1
        if opened and depth <= 0:
            break
    return end


def _count_open(line: str) -> int:
    """Opening minus closing brackets, outside of strings."""
    bare = _STRING.sub("", line)
    return sum(bare.count(each) for each in "([{") - sum(bare.count(each) for each in ")]}")


def _read_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
