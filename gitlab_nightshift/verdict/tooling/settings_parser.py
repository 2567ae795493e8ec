"""Settings files as plain data: TOML, JSON with comments, YAML, INI, XML, properties.

Nothing here raises: what cannot be read is ``None``, and raises no flag.
"""

import json
import re
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gitlab_nightshift.lazy_patterns import compile_lazily

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LARGEST = 1_000_000
"""Bytes of a settings file that is looked at."""


def parse_data(path: str, data: bytes | None) -> Any:
    """A settings file's data by its name; None where it is not there or cannot be read."""
    reader = _find_reader(path.rpartition("/")[2].lower())
    if data is None or reader is None or len(data) > LARGEST:
        return None
    try:
        return reader(data.decode("utf-8-sig"))
    except (ValueError, RecursionError, SyntaxError, KeyError, TypeError):
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


_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = compile_lazily(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = compile_lazily(rf"{_STRING}|,(\s*[}}\]])")


def from_yaml(text: str) -> Any:
    """The first document that holds more than GitLab's ``spec``."""
    from gitlab_nightshift.verdict.tooling.yaml_loader import load_documents

    bodies = [each for each in load_documents(text) if not _is_spec(each)]
    return bodies[0] if bodies else {}


def from_neon(text: str) -> Any:
    """PHPStan's settings: YAML but for tabs, and values that begin with ``%``."""
    spaced = re.sub(r"(?m)^\t+", lambda tabs: "    " * len(tabs[0]), text)
    return from_yaml(re.sub(r"(?m)([:-][ \t]+)(%[^#\n]*?)[ \t]*$", r"\1'\2'", spaced))


def _is_spec(document: object) -> bool:
    return isinstance(document, dict) and set(document) == {"spec"}


def from_either(text: str) -> Any:
    """JSON with comments, or YAML."""
    return from_json(text) if text.lstrip()[:1] in ("{", "/") else from_yaml(text)


def from_ini(text: str) -> Any:
    """Section → key → text; keys before the first section are in ``""``."""
    import configparser

    reader = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    reader.optionxform = str  # type: ignore[assignment,method-assign]
    head = "" if re.match(r"\s*(?:[#;][^\n]*\n|\s)*\[", text) else f"[{_TOP}]\n"
    try:
        reader.read_string(head + text)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    found = {name: dict(reader.items(name)) for name in reader.sections()}
    return {"" if name == _TOP else name: values for name, values in found.items()}


_TOP = "nothing-above"


def from_properties(text: str) -> Any:
    """Key → text; a line may go on after a backslash."""
    joined = re.sub(r"\\\n\s*", "", text)
    rows = re.findall(r"^[ \t]*([^#!\s=:][^=:\n]*?)[ \t]*[=:][ \t]*(.*)$", joined, re.MULTILINE)
    return {key: value.strip() for key, value in rows}


def from_lines(text: str) -> Any:
    """The lines that say something."""
    return [
        line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] not in "#!"
    ]


def from_xml(text: str) -> Any:
    """An element as ``{"tag", "attrib", "text", "children"}``; a document type is refused."""
    if "<!ENTITY" in text:
        raise ValueError("entities are not looked into")
    from xml.etree import ElementTree

    return _convert_element(ElementTree.fromstring(text))  # noqa: S314


def _convert_element(element: "Element") -> dict[str, Any]:
    return {
        "tag": element.tag.rpartition("}")[2],
        "attrib": dict(element.attrib),
        "text": (element.text or "").strip(),
        "children": [_convert_element(child) for child in element],
    }


_READERS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"ignore$|^\.flowconfig$", from_lines),
    (r"\.toml$|^staticcheck\.conf$|^pipfile$|^(poetry|uv|pdm)\.lock$", tomllib.loads),
    (r"^\.golangci\.|\.ya?ml$|^\.clang-tidy$|^\.yamllint$", from_yaml),
    (r"\.neon(\.dist)?$", from_neon),
    (r"\.(json|jsonc|json5)$", from_json),
    (r"^\.(eslintrc|stylelintrc|nycrc|jshintrc|markdownlintrc|c8rc|oxlintrc)$", from_either),
    (r"\.(ini|cfg)$|^\.(coveragerc|flake8|pylintrc|editorconfig|isort\.cfg)$|^pylintrc$", from_ini),
    (r"\.properties$|^\.shellcheckrc$", from_properties),
    (r"\.(xml|xml\.dist|dist)$|\.ruleset$|\.(cs|fs|vb)proj$|\.props$", from_xml),
)
"""How settings are read, by the file's name; the first that matches."""
