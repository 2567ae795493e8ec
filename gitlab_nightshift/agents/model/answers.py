"""A model's answer: SEARCH/REPLACE blocks, parsed strictly and written so that parsing gives the
same again, or a JSON object, found in the text and checked against its schema.

    path/of/file.py
    <<<<<<< SEARCH
    whole lines as they are
    =======
    whole lines as they shall be
    >>>>>>> REPLACE

The line before a block is the file's path; a fence (three backquotes) may stand between the two.
An empty SEARCH creates a file. ``<<<<<<< DELETE`` and ``>>>>>>> DELETE``, without a line between
them, delete one. If a text itself contains such a line, all marks of its block are longer.

Of a JSON object only what models get wrong is checked (types, missing keys, unknown words), so that
they can correct it; the agent's caller validates the answer completely.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_TEXT = 2_000_000
"""Characters of a text with blocks."""
MOST_BLOCKS = 500
# As long as git's conflict markers (gitattributes(5), conflict-marker-size).
SHORTEST_MARK = 7
_OPEN = compile_lazily(r"(<{7,}) (SEARCH|DELETE)")
_CLOSE = compile_lazily(r">{7,} (?:REPLACE|DELETE)")
_MARK = compile_lazily(r"(<{7,}|>{7,}|={7,})(?: (?:SEARCH|REPLACE|DELETE))?")
_NO_CHANGE = compile_lazily(r"^NO CHANGE\b[: ]*(.*)$", re.MULTILINE)


class MalformedError(Exception):
    """A text that does not have the required form; the message is for its author."""


@dataclass(frozen=True)
class Block:
    """An edit of a file. ``number`` counts the blocks of a text from 1; lines have no line ends."""

    number: int
    path: str
    search: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    delete: bool = False

    def __str__(self) -> str:
        return f"block {self.number} ({self.path[:200]})"


def parse_blocks(text: str) -> tuple[Block, ...]:
    """All blocks of a text, in order, without the text around them.

    Raises :class:`MalformedError`.
    """
    _check_text(text)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        opening = _OPEN.fullmatch(lines[index].rstrip())
        if opening is None and _CLOSE.fullmatch(lines[index].rstrip()):
            raise MalformedError(
                f"line {index + 1}: {lines[index].strip()[:40]} ends a block that never began"
            )
        if opening:
            number = len(blocks) + 1
            if number > MOST_BLOCKS:
                raise MalformedError(f"more than {MOST_BLOCKS} blocks")
            path = _find_path_above(lines, index, number)
            block, index = _parse_block(
                lines, index, Block(number, path, delete=opening[2] == "DELETE")
            )
            blocks.append(block)
        index += 1
    return tuple(blocks)


def find_no_change_reason(text: str) -> str | None:
    """The reason of an answer that changes nothing, None for other answers."""
    match = _NO_CHANGE.search(text)
    return (match[1].strip() or "no reason given") if match else None


def render_blocks(blocks: tuple[Block, ...]) -> str:
    """The blocks as a text from which :func:`parse_blocks` makes the same."""
    return "\n".join(line for block in blocks for line in (*_render_block(block), ""))


def _check_text(text: str) -> None:
    if len(text) > LARGEST_TEXT:
        raise MalformedError(f"larger than {LARGEST_TEXT} characters")
    if "\0" in text:
        raise MalformedError("a NUL character: blocks are for text files")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedError("not UTF-8 text") from None


def _find_path_above(lines: list[str], start: int, number: int) -> str:
    above = lines[max(start - 2, 0) : start]
    if above and above[-1].lstrip().startswith("```"):
        above.pop()
    path = above[-1].strip() if above else ""
    if not path or path.startswith("```") or _MARK.fullmatch(path):
        raise MalformedError(
            f"block {number} (line {start + 1}): the line before it has to be its path"
        )
    return path


def _parse_block(lines: list[str], start: int, block: Block) -> tuple[Block, int]:
    """The block that begins at index ``start``, and the index of its last line. Between its marks,
    marks of another width are text."""
    width = len(lines[start].rstrip().partition(" ")[0])
    end_word = "DELETE" if block.delete else "REPLACE"
    end, divider = f"{'>' * width} {end_word}", "=" * width
    divider_index: int | None = None
    for index in range(start + 1, len(lines)):
        line = lines[index].rstrip()
        if line == end:
            break
        if line == divider and not block.delete:
            if divider_index is not None:
                raise MalformedError(
                    f"{block}: a second line {divider} (line {index + 1}); if the text itself"
                    " contains such a line, make all three marks of the block longer"
                )
            divider_index = index
        elif (mark := _MARK.fullmatch(line)) and len(mark[1]) == width and " " in line:
            raise MalformedError(
                f"{block}: {line} (line {index + 1}) before the block's own end {end}"
            )
    else:
        raise MalformedError(f"{block}: it has no end; {end} is missing")
    if block.delete:
        if index != start + 1:
            raise MalformedError(f"{block}: a deletion has nothing between its two marks")
        return block, index
    if divider_index is None:
        raise MalformedError(f"{block}: no line of = between SEARCH and REPLACE")
    search, replace = lines[start + 1 : divider_index], lines[divider_index + 1 : index]
    return Block(block.number, block.path, tuple(search), tuple(replace)), index


def _render_block(block: Block) -> Iterator[str]:
    content = (*block.search, *block.replace)
    marks = (_MARK.fullmatch(line.rstrip()) for line in content)
    width = max((len(mark[1]) + 1 for mark in marks if mark), default=SHORTEST_MARK)
    yield block.path
    if block.delete:
        yield from (f"{'<' * width} DELETE", f"{'>' * width} DELETE")
        return
    yield f"{'<' * width} SEARCH"
    yield from block.search
    yield "=" * width
    yield from block.replace
    yield f"{'>' * width} REPLACE"


# --- JSON -----------------------------------------------------------------------------------------

MOST_BRACES = 200
"""Opening braces of a text that are tried as the start of an object."""
_PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}

Schema = Mapping[str, Any]


def parse_json_answer(text: str, schema: Schema) -> dict[str, Any]:
    """The JSON object that an answer is, or the only one in it that fits the schema.

    Raises :class:`MalformedError`.
    """
    # A list of objects is not one answer, even if only one of them fits.
    objects = [] if text.lstrip().startswith("[") else list(_find_objects(text))
    fitting = [value for value in objects if not any(_find_problems(value, schema, schema, ""))]
    if not objects or any(value != fitting[0] for value in fitting):
        raise MalformedError("the answer is not one JSON object alone")
    # If none fits, the model is told what is wrong with the last one.
    return check_answer((fitting or objects)[-1], schema)


def check_answer(answer: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The answer, if it fits the schema. Raises :class:`MalformedError`."""
    if problem := next(_find_problems(answer, schema, schema, "the answer"), ""):
        raise MalformedError(problem)
    selected = answer.get("selected")
    if answer.get("result") == "IMPROVEMENT_FOUND" and not (selected and selected.get("files")):
        raise MalformedError("selected: with IMPROVEMENT_FOUND it has files and a description")
    return answer


def _find_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of a text."""
    decoder, start = json.JSONDecoder(strict=False), text.find("{")  # line ends within strings
    for _ in range(MOST_BRACES):
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _find_problems(value: Any, schema: Schema, root: Schema, where: str) -> Iterator[str]:
    """The problems of a value; ``root`` has the definitions, ``where`` names the value."""
    if name := str(schema.get("$ref", "")).removeprefix("#/$defs/"):
        schema = root["$defs"][name]
    if options := schema.get("anyOf"):
        problems = [list(_find_problems(value, option, root, where)) for option in options]
        if all(problems):
            yield from problems[0]  # the first option says most: "null" comes last
        return
    type_name = schema.get("type")
    if isinstance(type_name, str) and not _has_type(value, type_name):
        yield f"{where}: {type_name} expected"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: one of {', '.join(map(str, schema['enum']))} expected"
    if isinstance(value, dict):
        missing = (key for key in schema.get("required", ()) if key not in value)
        yield from (f"{where}: {key} is missing" for key in missing)
        for key, inner in schema.get("properties", {}).items():
            if key in value:
                yield from _find_problems(value[key], inner, root, key)
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for item in value:
            yield from _find_problems(item, items, root, where)


def _has_type(value: Any, type_name: str) -> bool:
    # A bool is an int in Python, but no integer in JSON Schema.
    if isinstance(value, bool):
        return type_name == "boolean"
    return isinstance(value, _PYTHON_TYPES[type_name])
