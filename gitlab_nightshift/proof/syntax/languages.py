"""The supported languages, one folder each in ``proof/languages``, and parsing.

To add one: a folder with ``language.toml``, its queries (``*.scm``), the templates of its faults
(``faults.toml``) and switches (``switches.toml``); its grammar in pyproject.toml; and in
``nodes.toml`` the names of its node types that no other language has. Each table inherits from the
language that it is ``like``.
"""

import importlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Query

from gitlab_nightshift.proof.rule_tables import RuleTable

_FOLDER = Path(__file__).parents[1] / "languages"
_TABLE = RuleTable(__file__)
_BESIDE_TESTS = _TABLE.get_pattern("beside_tests")
_CODE = _TABLE.get_pattern("code", re.IGNORECASE)
_NAMED_TEST = _TABLE.get_pattern("named_test")
_PATTERNS = {"test_files", "test_names", "test_marks", "suite_bases"}


@dataclass(frozen=True)
class Language:
    """A language: its ``grammar`` (``module:function``), and how its tools recognize tests.

    ``queries`` is the language whose queries it uses. ``test_files`` matches the paths of files
    that a runner collects. ``test_calls``: tests may be calls with a callback
    (``it("adds", () => …)``). ``test_names`` matches the names of functions that are tests by their
    name alone, in a class whose heading matches ``suite_bases`` if there is such a pattern;
    ``test_marks`` matches the annotation or attribute that makes a function a test.
    ``inline_tests``: product files may contain tests. Languages of one ``family`` (by default each
    has its own) call each other's code, and share test runners. ``public``: see
    ``reading/public_interface.py``; ``package``: files share their names in a "folder" or
    "anywhere"; ``keyword_arguments``: arguments may be passed by name. Only a file with one of
    ``error_words``, if there are any, can hide an error; ``error_values``: errors are returned, not
    raised.
    """

    name: str
    extensions: tuple[str, ...]
    grammar: str
    queries: str
    family: str
    test_files: re.Pattern[str]
    test_calls: bool = False
    test_names: re.Pattern[str] | None = None
    test_marks: re.Pattern[str] | None = None
    suite_bases: re.Pattern[str] | None = None
    inline_tests: bool = False
    public: Mapping[str, str] = field(hash=False, compare=False, default_factory=dict)
    package: str = "file"
    keyword_arguments: bool = False
    error_words: tuple[str, ...] = ()
    error_values: bool = False


@cache
def _read_languages() -> dict[str, Language]:
    """The languages by extension; one may have several."""
    folders = sorted(path.name for path in _FOLDER.iterdir() if path.is_dir())
    return {ending: each for each in map(_read_language, folders) for ending in each.extensions}


def _read_language(name: str) -> Language:
    table = read_language_table(name, "language")
    fields: dict[str, Any] = {"queries": name, "family": name, **table}
    for key in _PATTERNS & table.keys():
        fields[key] = _TABLE.compile(table[key]) if table[key] else None
    fields |= {key: tuple(table.get(key, "").split()) for key in ("extensions", "error_words")}
    return Language(name, **fields)


@cache
def read_language_table(language: str, name: str) -> Mapping[str, Any]:
    """A table of a language's folder, completed from the language that it is ``like``; empty if
    there is none."""
    path = _FOLDER / language / f"{name}.toml"
    if not path.exists():
        return {}
    table = RuleTable(str(path)).entries
    like = table.pop("like", "")
    return {**read_language_table(like, name), **table} if like else table


def find_language(path: str) -> Language | None:
    """The language of a file by its extension; None if it is unsupported."""
    return _read_languages().get("." + path.rsplit(".", 1)[-1].lower() if "." in path else "")


def is_test_file(path: str) -> bool:
    """True if a test runner collects a file with this path."""
    language = find_language(path)
    return language is not None and bool(language.test_files.search(path))


def is_beside_tests(path: str) -> bool:
    """True for a file in a folder of tests, or one that sets up tests."""
    return _BESIDE_TESTS.search(path) is not None


def is_code(path: str) -> bool:
    """True for code in any language, also an unsupported one, by the file's extension."""
    return _CODE.search(path) is not None


def has_test_name(path: str) -> bool:
    """True for a test file in any language, also an unsupported one, by the file's name."""
    return _NAMED_TEST.search(path) is not None


def has_inline_tests(path: str) -> bool:
    """True for a file in a language whose product files may contain tests."""
    language = find_language(path)
    return language is not None and language.inline_tests


def is_product(path: str) -> bool:
    """True unless a file contains only tests, or is beside them."""
    return not is_beside_tests(path) and (has_inline_tests(path) or not is_test_file(path))


@cache
def _load_grammar(entry_point: str) -> Grammar:
    module, _, function = entry_point.partition(":")
    return Grammar(getattr(importlib.import_module(module), function)())


@cache
def load_parser(language: Language) -> Parser:
    """A parser for the language, whose grammar is loaded on first use."""
    return Parser(_load_grammar(language.grammar))


@cache
def load_query(language: Language, name: str) -> Query | None:
    """The query with this name for the language; None if it has none."""
    path = _FOLDER / language.queries / f"{name}.scm"
    if not path.exists():
        return None
    return Query(_load_grammar(language.grammar), path.read_text("utf-8"))


# --- parsing --------------------------------------------------------------------------------------


LARGEST = 1_000_000  # bytes of the largest file that is parsed
_PARSE_LIMIT_S = 2.0  # seconds to parse one file
_MOST_NODES = 300_000
_CHUNK = 1 << 16  # bytes


def parse(language: Language, source: bytes) -> Node | None:
    """The root of the syntax tree; None for a file that is too large, too slow to parse or mostly
    errors: a hostile one costs little."""
    if len(source) > LARGEST:
        return None
    parser = load_parser(language)
    deadline = time.monotonic() + _PARSE_LIMIT_S
    try:
        tree = parser.parse(
            lambda at, _point: source[at : at + _CHUNK],
            progress_callback=lambda _at, _error: time.monotonic() > deadline,
        )
    except ValueError:
        # Otherwise the next parse would resume this one (tree_sitter/api.h: ts_parser_reset).
        parser.reset()
        return None
    # A tree that was parsed from a callback calls that for every node's text; one from bytes only
    # takes a slice. With the old tree nothing is parsed again.
    root = parser.parse(source, tree).root_node
    return root if _is_readable(root) else None


def _is_readable(root: Node) -> bool:
    """False if the tree is huge, or half of the source is errors."""
    if root.descendant_count > _MOST_NODES or root.is_error:
        return False
    if not root.has_error:
        return True
    broken = sum(child.end_byte - child.start_byte for child in root.children if child.is_error)
    return broken * 2 < root.end_byte
