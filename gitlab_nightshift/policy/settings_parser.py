"""Settings files as plain data (TOML, JSON with comments, YAML, INI, XML, properties), and the keys
or blocks that differ between two versions of a file. Callers name the tables that matter, as a file
may have settings for several tools."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.untrusted_data import construct_documents

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LARGEST = 1_000_000
"""Bytes of a settings file; a larger one is not read."""


def parse_data(path: str, data: bytes | None) -> Any:
    """The content of a settings file, whose name tells the format; None without ``data``, or if it
    cannot be parsed."""
    reader = _find_reader(path.rpartition("/")[2].lower())
    if data is None or reader is None or len(data) > LARGEST:
        return None
    try:
        return reader(data.decode("utf-8-sig"))
    except (ValueError, RecursionError, TypeError):
        return None


def _find_reader(name: str) -> Callable[[str], Any] | None:
    for pattern, reader in _READERS:
        if re.search(pattern, name):
            return reader
    return None


def from_json(text: str) -> Any:
    """JSON with comments and trailing commas."""
    try:
        return json.loads(text)
    except ValueError:
        no_comments = _COMMENT.sub(lambda match: match[1] or "", text)
        return json.loads(_COMMA.sub(lambda match: match[1] or match[2], no_comments))


# An unclosed string or comment extends to the end of the file: searching for its end from every
# quote would take quadratic time.
_STRING = r'("(?:\\.|[^"])*(?:"|\Z))'
_COMMENT = compile_lazily(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = compile_lazily(rf"{_STRING}|,(\s*[}}\]])")


def from_yaml(text: str) -> Any:
    """The document; if there are several, a mapping from "" to their list; {} if there is none."""
    documents = load_documents(text)
    if len(documents) == 1:
        return documents[0]
    return {"": documents} if documents else {}


def from_either(text: str) -> Any:
    """JSON with comments, or YAML."""
    return from_json(text) if text.lstrip()[:1] in ("{", "/") else from_yaml(text)


def from_ini(text: str) -> Any:
    """Section → key → text; keys before the first section are in ``""``."""
    import configparser

    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    # configparser needs a section; .editorconfig begins without one.
    head = "" if re.match(r"(?:[#;][^\n]*\n|\s)*\[", text) else f"[{_NO_SECTION}]\n"
    try:
        parser.read_string(head + text)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    sections = {name: dict(parser.items(name)) for name in parser.sections()}
    return {"" if name == _NO_SECTION else name: values for name, values in sections.items()}


_NO_SECTION = "no-section"


def from_properties(text: str) -> Any:
    """Key → text; a backslash continues a line."""
    joined = re.sub(r"\\\n\s*", "", text)
    values: dict[str, str] = {}
    for line in joined.splitlines():
        if (equals := re.search("[=:]", line)) and line.strip()[0] not in "#!":
            values[line[: equals.start()].strip()] = line[equals.end() :].strip()
    return values


def from_xml(text: str) -> Any:
    """An element as a mapping: ``@name`` → attribute, child → list of data, ``""`` → text. A name
    that a child gives itself is added to its tag: ``plugin:maven-surefire-plugin``."""
    # Entities may expand to gigabytes (docs.python.org, "XML security": billion laughs).
    if "<!ENTITY" in text:
        raise ValueError("entities are not allowed")
    from xml.etree import ElementTree

    try:
        return _convert_element(ElementTree.fromstring(text))  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None


def _convert_element(element: "Element") -> dict[str, Any]:
    data: dict[str, Any] = {f"@{name}": value for name, value in element.attrib.items()}
    for child in element:
        data.setdefault(_build_name(child), []).append(_convert_element(child))
    text = (element.text or "").strip()
    return {**data, "": text} if text or not data else data


def _build_name(element: "Element") -> str:
    tag = element.tag.rpartition("}")[2]
    attributes = (element.get(key) for key in ("Include", "name", "id", "Condition"))
    texts = (c.text for c in element if c.tag.rpartition("}")[2] in ("artifactId", "id"))
    name = next((each.strip() for each in (*texts, *attributes) if each), "")
    return f"{tag}:{name}" if name else tag


def list_leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its path, ``tool.ruff.line-length``. A list is one value unless it contains
    tables; each of them adds its ``name``, if any, to the path: ``package:serde.version``."""
    has_tables = isinstance(data, list) and any(isinstance(each, dict) for each in data)
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from list_leaves(value, ".".join(filter(None, (path, str(key)))))
    elif has_tables:
        for table in data:
            name = table.get("name") if isinstance(table, Mapping) else None
            yield from list_leaves(table, f"{path}:{name}" if isinstance(name, str) else path)
    else:
        yield path, data


_READERS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"\.toml$|^staticcheck\.conf$|^pipfile$|^(poetry|uv|pdm|cargo|pixi)\.lock$", tomllib.loads),
    (r"^\.golangci\.|\.ya?ml$|^\.clang-tidy$|^\.yamllint$", from_yaml),
    (r"\.(json|jsonc|json5)$|^(composer|pipfile|deno|flake|bun)\.lock$", from_json),
    (r"^\.(eslintrc|stylelintrc|nycrc|jshintrc|markdownlintrc|c8rc|oxlintrc)$", from_either),
    (r"\.(ini|cfg|conf)$|^\.(coveragerc|flake8|pylintrc|editorconfig)$|^pylintrc$", from_ini),
    (r"\.properties$|^\.shellcheckrc$", from_properties),
    (r"\.(xml|xml\.dist|dist)$|\.ruleset$|\.(cs|fs|vb)proj$|\.props$", from_xml),
)
"""Readers by patterns for the file's name; the first match counts."""


def load_documents(text: str) -> list[Any]:
    """The documents that are not empty. Raises ValueError."""
    import yaml

    try:
        documents = construct_documents(_build_loader()(text))
        return [each for each in documents if each is not None]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


# YAML 1.2.2, 10.3.2. PyYAML follows YAML 1.1, to which `on` and `no` are booleans, too.
_YAML_BOOL = compile_lazily(r"^(?:true|True|TRUE|false|False|FALSE)$")


@cache
def _build_loader() -> Any:
    """A YAML loader that accepts any tag (``!reference``, ``!vault``), and reads dates, ``on`` and
    ``off`` as text."""
    # Built on first use: few files are YAML, and PyYAML is slow to import.
    import yaml

    class Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
            first: [
                (tag, _YAML_BOOL if "bool" in tag else pattern)
                for tag, pattern in resolvers
                if "timestamp" not in tag
            ]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def construct_tagged(loader: Any, _suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("!", construct_tagged)
    return Loader


# --- what differs between two versions ------------------------------------------------------------

UNREADABLE = "the file cannot be read"
EVERYTHING = ("*",)
# An unclosed string ends with its line, an unclosed comment with the file: linear time.
_TEXT = r"""("(?:\\[^\n]|[^"\n])*(?:"|$)|'(?:\\[^\n]|[^'\n])*(?:'|$))"""
_CODE_COMMENT = compile_lazily(rf"{_TEXT}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL | re.MULTILINE)
_HASH_COMMENT = compile_lazily(r"#(?!!)")  # not "#!": it decides what runs the script
_QUOTED = compile_lazily(_TEXT, re.MULTILINE)
_LONGEST = 500
"""Characters of a key or a line. A longer one may hide something, or slow the search down: it
always counts as relevant."""


def list_changed_keys(
    path: str, old: bytes | None, new: bytes | None, tables: tuple[str, ...]
) -> list[str]:
    """The changed keys below ``tables``, as paths of :func:`list_leaves`; ``*`` in a table matches
    anything. A missing file has no keys; one that cannot be read counts as changed."""
    try:
        before, after = (dict(_select_keys(path, data, tables)) for data in (old, new))
    except (ValueError, RecursionError):
        return [UNREADABLE]
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _select_keys(
    path: str, data: bytes | None, tables: tuple[str, ...]
) -> Iterator[tuple[str, object]]:
    if data is None or not data.strip():
        return
    parsed = parse_data(path, data)
    if parsed is None:
        raise ValueError("no settings")
    selected: dict[str, list[object]] = {}
    for key, value in list_leaves(parsed):
        if len(key) > _LONGEST or _compile_tables(tables).match(key):
            # As text, since True == 1, and NaN != NaN.
            selected.setdefault(key, []).append(repr(value))
    yield from selected.items()


@cache
def _compile_tables(tables: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(table).replace(r"\*", ".*") for table in tables)
    return re.compile(rf"(?:{names})(?:\.|$)", re.DOTALL)


def list_changed_blocks(
    old: bytes | None, new: bytes | None, heads: re.Pattern[str], *, has_c_comments: bool = False
) -> list[str]:
    """The changed blocks of a build script, each named by what ``heads`` matches in its first line.
    A block continues while lines are indented more, or within its brackets. White space and
    comments do not count; ``has_c_comments``: comments are as in C, else only lines that begin with
    ``#`` are comments."""
    if max(len(old or b""), len(new or b"")) > LARGEST:
        return [UNREADABLE]
    before, after = (list(_list_blocks(data or b"", heads, has_c_comments)) for data in (old, new))
    if before == after:
        return []
    different = {*before} ^ {*after}
    changed = [block for block in (*after, *before) if block in different]
    # Only the order or number of equal blocks differs: name all.
    return list(dict.fromkeys(block[0] for block in changed or after))


def _list_blocks(
    data: bytes, heads: re.Pattern[str], has_c_comments: bool
) -> Iterator[tuple[str, ...]]:
    """For each block its name, then its lines with white space normalized."""
    text = data.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    if has_c_comments:
        text = _CODE_COMMENT.sub(lambda match: match[1] or "", text)
    lines = [line for line in text.expandtabs().splitlines() if _has_code(line, has_c_comments)]
    start = 0
    while start < len(lines):
        name: str | None = None
        end = start + 1
        if len(lines[start]) > _LONGEST:
            name = "a long line"
        elif head := heads.search(lines[start]):
            name, end = head[0].strip(), _find_end(lines, start)
        if name is not None:
            yield (name, *(" ".join(line.split()) for line in lines[start:end]))
        start = end


def _has_code(line: str, has_c_comments: bool) -> bool:
    code = line.strip()
    return code != "" and (has_c_comments or _HASH_COMMENT.match(code) is None)


def _find_end(lines: list[str], start: int) -> int:
    """The index after the block that begins at ``start``."""
    depth, end = _count_open(lines[start]), start + 1
    has_brackets, indent = depth > 0, _count_indent(lines[start])
    while end < len(lines) and (depth > 0 or _count_indent(lines[end]) > indent):
        depth += _count_open(lines[end])
        end += 1
        if has_brackets and depth <= 0:
            break
    return end


def _count_open(line: str) -> int:
    """Opening minus closing brackets, outside of strings."""
    bare = _QUOTED.sub("", line)
    return sum(bare.count(each) for each in "([{") - sum(bare.count(each) for each in ")]}")


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
