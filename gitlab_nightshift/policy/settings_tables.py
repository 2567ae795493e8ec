"""What differs in a file between two sides, by its tables and keys: that of a shared file decides
about more than one thing, and only some of its tables matter to a rule."""

import re
from collections.abc import Iterator
from functools import cache

from gitlab_nightshift.policy.settings_parser import LARGEST, list_leaves, parse_data
from gitlab_nightshift.text.lazy_patterns import compile_lazily

UNREADABLE = "the file cannot be read"
EVERYTHING = ("*",)
# What is never closed ends with the line, or the file: nothing is looked at twice.
_STRINGS = r"""("(?:\\[^\n]|[^"\n])*(?:"|$)|'(?:\\[^\n]|[^'\n])*(?:'|$))"""
_COMMENT = compile_lazily(rf"{_STRINGS}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_REMARK = compile_lazily(r"#(?!!)")
_STRING = compile_lazily(_STRINGS, re.MULTILINE)
_LONGEST = 500
"""Characters of a key or a line. What is longer is made to hide something, or to take long: it
counts, whatever it says."""

Table = tuple[str, object]


def list_changed_tables(
    path: str, old: bytes | None, new: bytes | None, tables: tuple[str, ...]
) -> list[str]:
    """The keys that differ below ``tables``, each a path as of :func:`list_leaves` in which ``*``
    stands for anything. A file that is not there has none; one that cannot be read is a change."""
    try:
        before, after = (dict(_pick_tables(path, side, tables)) for side in (old, new))
    except (ValueError, RecursionError):
        return [UNREADABLE]
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _pick_tables(path: str, data: bytes | None, tables: tuple[str, ...]) -> Iterator[Table]:
    if data is None or not data.strip():
        return
    parsed = parse_data(path, data)
    if parsed is None:
        raise ValueError("no settings")
    found: dict[str, list[object]] = {}
    for key, value in list_leaves(parsed):
        if len(key) > _LONGEST or _compile_tables(tables).match(key):
            # As text: True is not 1, and a value that is no number equals itself.
            found.setdefault(key, []).append(repr(value))
    yield from found.items()


@cache
def _compile_tables(tables: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(table).replace(r"\*", ".*") for table in tables)
    return re.compile(rf"(?:{names})(?:\.|$)", re.DOTALL)


def list_changed_blocks(
    old: bytes | None, new: bytes | None, heads: re.Pattern[str], *, remarks: bool = False
) -> list[str]:
    """What ``heads`` finds in the first lines of the statements of a build script that differ: such
    a line, with those below it that are deeper or within its brackets. White space and comments do
    not count. ``remarks`` is true where these are as in C, else they begin with ``#``."""
    if max(len(old or b""), len(new or b"")) > LARGEST:
        return [UNREADABLE]
    before, after = (list(_list_blocks(side or b"", heads, remarks)) for side in (old, new))
    if before == after:
        return []
    apart = {*before} ^ {*after}
    changed = [block for block in (*after, *before) if block in apart]
    return list(dict.fromkeys(block[0] for block in changed or after))


def _list_blocks(data: bytes, heads: re.Pattern[str], remarks: bool) -> Iterator[tuple[str, ...]]:
    text = data.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    if remarks:
        text = _COMMENT.sub(lambda match: match[1] or "", text)
    lines = [line for line in text.expandtabs().splitlines() if not _is_silent(line, remarks)]
    at = 0
    while at < len(lines):
        end, long = at + 1, len(lines[at]) > _LONGEST
        if head := None if long else heads.search(lines[at]):
            end = _find_end(lines, at)
        if head or long:
            name = head[0].strip() if head else "a long line"
            yield (name, *(" ".join(line.split()) for line in lines[at:end]))
        at = end


def _is_silent(line: str, remarks: bool) -> bool:
    said = line.strip()
    return not said or (not remarks and _REMARK.match(said) is not None)


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
    """Brackets that open less those that close, outside of strings."""
    bare = _STRING.sub("", line)
    return sum(bare.count(each) for each in "([{") - sum(bare.count(each) for each in ")]}")


def _read_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
