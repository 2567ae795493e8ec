"""Settings files as plain data: TOML, JSON with comments, YAML, INI, XML, properties."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.yaml_documents import construct_documents

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LARGEST = 1_000_000
"""Bytes of a settings file; a larger one is not read."""


def parse_data(path: str, data: bytes | None) -> Any:
    """The data of a settings file, whose format is given by its name; None without data, or if it
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
        bare = _COMMENT.sub(lambda match: match[1] or "", text)
        return json.loads(_COMMA.sub(lambda match: match[1] or match[2], bare))


# An unclosed string or comment extends to the end: to search its end from every quote would take
# quadratic time.
_STRING = r'("(?:\\.|[^"])*(?:"|\Z))'
_COMMENT = compile_lazily(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = compile_lazily(rf"{_STRING}|,(\s*[}}\]])")


def from_yaml(text: str) -> Any:
    """The only document, or a mapping of "" to all of them."""
    bodies = load_documents(text)
    return bodies[0] if len(bodies) == 1 else {"": bodies} if bodies else {}


def from_either(text: str) -> Any:
    """JSON with comments, or YAML."""
    return from_json(text) if text.lstrip()[:1] in ("{", "/") else from_yaml(text)


def from_ini(text: str) -> Any:
    """Section → key → text; keys before the first section are in ``""``."""
    import configparser

    reader = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    reader.optionxform = str  # type: ignore[assignment,method-assign]
    # configparser needs a section; .editorconfig begins without one.
    head = "" if re.match(r"(?:[#;][^\n]*\n|\s)*\[", text) else f"[{_TOP}]\n"
    try:
        reader.read_string(head + text)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    found = {name: dict(reader.items(name)) for name in reader.sections()}
    return {"" if name == _TOP else name: values for name, values in found.items()}


_TOP = "nothing-above"


def from_properties(text: str) -> Any:
    """Key → text; a backslash continues a line."""
    joined = re.sub(r"\\\n\s*", "", text)
    found: dict[str, str] = {}
    for line in joined.splitlines():
        if (equals := re.search("[=:]", line)) and line.strip()[0] not in "#!":
            found[line[: equals.start()].strip()] = line[equals.end() :].strip()
    return found


def from_xml(text: str) -> Any:
    """An element as a mapping: ``@name`` → attribute, child → list of data, ``""`` → text. A
    child's own name is added to its tag: ``plugin:maven-surefire-plugin``."""
    if "<!ENTITY" in text:
        raise ValueError("entities are not allowed")  # "billion laughs"
    from xml.etree import ElementTree

    try:
        return _convert_element(ElementTree.fromstring(text))  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None


def _convert_element(element: "Element") -> dict[str, Any]:
    found: dict[str, Any] = {f"@{name}": value for name, value in element.attrib.items()}
    for child in element:
        found.setdefault(_build_name(child), []).append(_convert_element(child))
    text = (element.text or "").strip()
    return {**found, "": text} if text or not found else found


def _build_name(element: "Element") -> str:
    tag = element.tag.rpartition("}")[2]
    names = (element.get(key) for key in ("Include", "name", "id", "Condition"))
    texts = (c.text for c in element if c.tag.rpartition("}")[2] in ("artifactId", "id"))
    own = next((each.strip() for each in (*texts, *names) if each), "")
    return f"{tag}:{own}" if own else tag


def list_leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its path, ``tool.ruff.line-length``. A list is one value unless it contains
    tables; each is called by its ``name``, if any: ``package:serde.version``."""
    tables = data if isinstance(data, list) and any(isinstance(e, dict) for e in data) else ()
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from list_leaves(value, ".".join(filter(None, (path, str(key)))))
    elif tables:
        for table in tables:
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


_YAML_BOOL = compile_lazily(r"^(?:true|True|TRUE|false|False|FALSE)$")


@cache
def _build_loader() -> Any:
    """A YAML loader that accepts any tag (``!reference``, ``!vault``), and reads dates, ``on`` and
    ``off`` as text. Built on first use: few files are YAML, and PyYAML is slow to import."""
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
