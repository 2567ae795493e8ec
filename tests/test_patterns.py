"""Long regular expressions are rows of named groups, each with an example that it finds."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gitlab_nightshift

PACKAGE = Path(gitlab_nightshift.__file__).parent
LONGEST = 200
"""Characters of a pattern that a reader takes in at once."""
ROW = re.compile(
    r"(?:^\s*\# (?P<above>.+)\n)?^.*?\(\?P<(?P<group>\w+)>.*?(?:\s\# +(?P<beside>.+))?$", re.M
)


def list_patterns() -> Iterator[tuple[str, str, int]]:
    """Where a pattern stands in the package, its text and its flags."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _is_compiling(node.func):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                    yield where, node.args[0].value, _read_flags(node)


def _is_compiling(function: ast.expr) -> bool:
    return ast.unparse(function) in {"compile_lazily", "re.compile"}


def _read_flags(call: ast.Call) -> int:
    given = [*call.args[1:], *(word.value for word in call.keywords if word.arg == "flags")]
    names = (
        each.attr for flags in given for each in ast.walk(flags) if isinstance(each, ast.Attribute)
    )
    return sum(int(getattr(re, name)) for name in names)


def test_long_ones_are_rows_with_examples() -> None:
    found = 0
    for where, text, flags in list_patterns():
        if len(text) <= LONGEST:
            continue
        assert flags & re.VERBOSE, f"{where}: write it in rows, by re.VERBOSE"
        pattern, rows = re.compile(text, flags), list(ROW.finditer(text))
        assert {row["group"] for row in rows} == set(pattern.groupindex), where
        for row in rows:
            example = (row["beside"] or row["above"] or "").strip()
            match = pattern.search(example) if example else None
            assert match, f"{where}: {row['group']}: {example or 'no example'}"
            assert match[row["group"]] is not None, f"{where}: {row['group']}: another one finds it"
            found += 1
    assert found > 50
