"""The languages that are understood: a closed table.

To add one: add an entry here, its grammar to pyproject.toml, and its node types to ``nodes.py``
where they have other names than in the languages that are there.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser


@dataclass(frozen=True)
class Language:
    """A language: its grammar, and how its tools tell a file of tests by the path.

    ``module`` and ``entry`` name the grammar. ``test_files`` matches the path of a file that a
    test runner collects. ``calls`` is true where tests are calls with a function
    (``it("adds", () => …)``), ``named`` is how a function is called that is a test by its name
    alone, ``marked`` the annotation or attribute that makes a function a test.
    """

    name: str
    extensions: tuple[str, ...]
    module: str
    test_files: re.Pattern[str]
    entry: str = "language"
    calls: bool = False
    named: re.Pattern[str] | None = None
    marked: re.Pattern[str] | None = None


_JS_TESTS = re.compile(
    r"[._-](test|spec|cy|e2e|unit|bench)\.[cm]?[jt]sx?$|(^|/)test-[^/]*\.[cm]?[jt]sx?$"
    r"|(^|/)(__tests__|tests?|specs?|e2e|cypress)/.*(?<!\.d)\.[cm]?[jt]sx?$|(^"
    r"|/)(test|spec)\.[cm]?[jt]sx?$"
)
_JVM_TESTS = re.compile(
    r"(^|/)(Test[^/]*|IT[^/]*|[^/]*(Tests?|TestCase|IT|Spec|Specs|Suite|Check|Props))"
    r"\.(java|scala|kt|kts|sc)$"
)
_JVM_MARK = re.compile(
    r"^@(\w+\.)*(Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Property|Example"
    r"|RetryingTest|CartesianTest)\b"
)

LANGUAGES = (
    Language(
        "python",
        (".py", ".pyi", ".pyw"),
        "tree_sitter_python",
        re.compile(r"(^|/)(test[^/]*|[^/]*_test)\.py$"),
        named=re.compile(r"^test"),
    ),
    Language(
        "javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        "tree_sitter_javascript",
        _JS_TESTS,
        calls=True,
    ),
    Language(
        "typescript",
        (".ts", ".mts", ".cts"),
        "tree_sitter_typescript",
        _JS_TESTS,
        "language_typescript",
        calls=True,
    ),
    Language("tsx", (".tsx",), "tree_sitter_typescript", _JS_TESTS, "language_tsx", calls=True),
    Language(
        "go",
        (".go",),
        "tree_sitter_go",
        re.compile(r"(^|/)[^/._][^/]*_test\.go$"),
        named=re.compile(r"^(Test|Benchmark|Fuzz|Example)(?![a-z])"),
    ),
    Language("java", (".java",), "tree_sitter_java", _JVM_TESTS, marked=_JVM_MARK),
    Language(
        "ruby",
        (".rb",),
        "tree_sitter_ruby",
        re.compile(r"(_spec|_test)\.rb$|(^|/)test_[^/]*\.rb$"),
        calls=True,
        named=re.compile(r"^test_"),
    ),
    Language(
        "rust",
        (".rs",),
        "tree_sitter_rust",
        re.compile(r"\.rs$"),
        marked=re.compile(
            r"^#\[\s*(\w+::)*(test|rstest|test_case|case|quickcheck|proptest|test_log|bench"
            r"|wasm_bindgen_test|traced_test|test_matrix)\b"
        ),
    ),
    Language(
        "scala",
        (".scala", ".sc"),
        "tree_sitter_scala",
        _JVM_TESTS,
        calls=True,
        marked=_JVM_MARK,
    ),
    Language(
        "kotlin",
        (".kt", ".kts"),
        "tree_sitter_kotlin",
        _JVM_TESTS,
        calls=True,
        marked=_JVM_MARK,
    ),
    Language(
        "php",
        (".php",),
        "tree_sitter_php",
        re.compile(r"Test\.php$|(^|/)tests?/.*\.php$"),
        "language_php",
        calls=True,
        named=re.compile(r"^test"),
        marked=re.compile(r"^#\[(\\?\w+\\)*Test\b"),
    ),
    Language(
        "csharp",
        (".cs",),
        "tree_sitter_c_sharp",
        re.compile(r"(Tests?|Specs?|Fixture|Should)\.cs$|[Tt]ests?/.*\.cs$"),
        marked=re.compile(
            r"^\[(\w+\.)*(Fact|Theory|Test|TestCase|TestMethod|DataTestMethod|TestCaseSource"
            r"|Property)\b"
        ),
    ),
)
_BY_EXTENSION = {extension: entry for entry in LANGUAGES for extension in entry.extensions}
_BESIDE_TESTS = re.compile(
    r"(^|/)(tests?|specs?|__tests__|__mocks__|__snapshots__|testdata|fixtures|e2e|cypress"
    r"|testing|benches|benchmarks?|androidTest|[\w.-]+[._-][Tt]ests?)/|(^|/)src/(test|it)/"
    r"|(^|/)(conftest|test_?[Hh]elpers?|spec_helper|rails_helper|noxfile)\.\w+$|setupTests\.\w+$"
)


def language_of(path: str) -> Language | None:
    """The language of a file by its name; None where it is not understood."""
    return _BY_EXTENSION.get("." + path.rsplit(".", 1)[-1].lower() if "." in path else "")


def is_test_file(path: str) -> bool:
    """True where a test runner collects the file by its path."""
    language = language_of(path)
    return language is not None and bool(language.test_files.search(path))


def beside_tests(path: str) -> bool:
    """True for a file in a folder of tests, and for what sets them up."""
    return _BESIDE_TESTS.search(path) is not None


def is_product(path: str) -> bool:
    """True for code that is neither tests nor beside them. Rust keeps tests in product files."""
    if beside_tests(path):
        return False
    return path.endswith(".rs") or not is_test_file(path)


@cache
def parser_of(language: Language) -> "Parser":
    """A parser with the grammar of the language, which is loaded at the first use."""
    import importlib
    import warnings

    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grammar = Grammar(getattr(importlib.import_module(language.module), language.entry)())
    return Parser(grammar)
