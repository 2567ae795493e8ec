"""The languages that are understood: one folder each in ``proof/languages``.

To add one: a folder with its ``language.toml`` (what it leaves out is as in the one that it is
``like``) and queries, its grammar in pyproject.toml, and its node types in ``nodes.toml`` where
they have other names than in the languages that are there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.proof.rule_tables import RuleTable

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser, Query
import time

from tree_sitter import Node

_FOLDER = Path(__file__).parents[1] / "languages"
_TABLE = RuleTable(__file__)
_BESIDE_TESTS = _TABLE.get_pattern("beside_tests")
_CODE = _TABLE.get_pattern("code", re.IGNORECASE)
_NAMED_TEST = _TABLE.get_pattern("named_test")


@dataclass(frozen=True)
class Language:
    """A language: its grammar (module and function), and how its tools recognize a test.

    ``queries`` is the language whose queries are its own. ``test_files`` matches the path of a file
    that a test runner collects. ``calls`` is true where tests are calls with a function
    (``it("adds", () => …)``), ``named`` matches the name of a function that is a test by its name
    alone, ``marked`` the annotation or attribute that makes a function a test.
    ``public`` says what of a file others may use (``flags/public_names.py``). A file without any
    of ``error_words`` holds no error back; there are none where any code may.
    """

    name: str
    extensions: tuple[str, ...]
    grammar: str
    queries: str
    test_files: re.Pattern[str]
    calls: bool = False
    named: re.Pattern[str] | None = None
    marked: re.Pattern[str] | None = None
    public: Mapping[str, str] = field(hash=False, compare=False, default_factory=dict)
    error_words: tuple[str, ...] = ()


@cache
def _read_languages() -> dict[str, Language]:
    """Every language by each of its extensions."""
    read = map(_read_language, sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()))
    return {extension: language for language in read for extension in language.extensions}


def _read_language(name: str) -> Language:
    table = RuleTable(str(_FOLDER / name / "language.toml"))
    row = table.entries
    if like := row.get("like"):
        row = RuleTable(str(_FOLDER / like / "language.toml")).entries | row
    patterns = ("test_files", "named", "marked")
    read = {"queries": name} | {key: value for key, value in row.items() if key != "like"}
    read |= {key: table.compile(row[key]) for key in patterns if key in row}
    read |= {key: tuple(row.get(key, "").split()) for key in ("extensions", "error_words")}
    return Language(name, **read)


def find_language(path: str) -> Language | None:
    """The language of a file by its name; None where it is not understood."""
    return _read_languages().get("." + path.rsplit(".", 1)[-1].lower() if "." in path else "")


def is_test_file(path: str) -> bool:
    """True where a test runner collects the file by its path."""
    language = find_language(path)
    return language is not None and bool(language.test_files.search(path))


def beside_tests(path: str) -> bool:
    """True for a file in a folder of tests, and for what sets them up."""
    return _BESIDE_TESTS.search(path) is not None


def is_code(path: str) -> bool:
    """True for code in any language, by the file's name."""
    return _CODE.search(path) is not None


def is_named_test(path: str) -> bool:
    """True for a file of tests in any language, by its own name."""
    return _NAMED_TEST.search(path) is not None


def is_product(path: str) -> bool:
    """True for code that is neither tests nor beside them. Rust keeps tests in product files."""
    if beside_tests(path):
        return False
    return path.endswith(".rs") or not is_test_file(path)


@cache
def _load_grammar(named: str) -> "Grammar":
    import importlib
    import warnings

    from tree_sitter import Language as Grammar

    module, _, entry = named.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Grammar(getattr(importlib.import_module(module), entry)())


@cache
def load_parser(language: Language) -> "Parser":
    """A parser with the grammar of the language, which is loaded at the first use."""
    from tree_sitter import Parser

    return Parser(_load_grammar(language.grammar))


@cache
def load_query(language: Language, name: str) -> "Query | None":
    """The query of that name in the language's folder; None where it has none."""
    from tree_sitter import Query

    path = _FOLDER / language.queries / f"{name}.scm"
    if not path.exists():
        return None
    return Query(_load_grammar(language.grammar), path.read_text("utf-8"))


# --- parsing --------------------------------------------------------------------------------------


LARGEST = 1_000_000
"""Bytes of the largest file that is parsed."""
_LONGEST = 2.0
"""Seconds that the parse of one file may take."""
_MOST_NODES = 300_000
_CHUNK = 1 << 16


def parse(language: Language, source: bytes) -> Node | None:
    """The root of the tree; None where the file is too large, too slow or mostly unreadable."""
    if len(source) > LARGEST:
        return None
    parser = load_parser(language)
    deadline = time.monotonic() + _LONGEST
    try:
        tree = parser.parse(
            lambda at, _point: source[at : at + _CHUNK],
            progress_callback=lambda _at, _error: time.monotonic() > deadline,
        )
    except ValueError:
        parser.reset()
        return None
    root = parser.parse(source, tree).root_node  # nothing is parsed again, and texts are at hand
    return root if _is_readable(root) else None


def _is_readable(root: Node) -> bool:
    """False where the tree is huge, or where half of the text is errors."""
    if root.descendant_count > _MOST_NODES or root.is_error:
        return False
    if not root.has_error:
        return True
    broken = sum(child.end_byte - child.start_byte for child in root.children if child.is_error)
    return broken * 2 < root.end_byte
