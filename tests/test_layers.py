"""Imports run one way, those for types and those inside functions included: import-linter sees no
circle within a package, and takes `stages` for four."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import gitlab_nightshift

PACKAGE = Path(gitlab_nightshift.__file__).parent
DATA = ("demo/sample", "demo/recording")


def read_imports() -> dict[str, set[str]]:
    """Module → the modules that it imports, by dotted names below the package."""
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    files = [path for path in files if not str(path).startswith(DATA)]
    names = {name_module(path) for path in files}
    return {name_module(path): set(list_imported(path, names)) for path in files}


def name_module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix("__init__").rstrip(".")


def list_imported(path: Path, names: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{each.name}" for each in node.names]
            yield from (name for each in found if (name := find_module(each, names)) is not None)
        elif isinstance(node, ast.Import):
            yield from (n for a in node.names if (n := find_module(a.name, names)) is not None)


def find_module(dotted: str, names: set[str]) -> str | None:
    """The module of this package that an import names, itself or by something in it."""
    first, _, below = dotted.partition(".")
    if first != "gitlab_nightshift":
        return None
    while below and below not in names:
        below = below.rpartition(".")[0]
    return below


def test_no_modules_import_each_other() -> None:
    TopologicalSorter(read_imports()).prepare()


def test_no_parts_of_the_package_import_each_other() -> None:
    parts: dict[str, set[str]] = {}
    for name, imported in read_imports().items():
        part = name.partition(".")[0]
        others = {each.partition(".")[0] for each in imported} - {part}
        parts.setdefault(part, set()).update(others)
    assert {"stages", "run", "gitlab", "records"} <= parts.keys()
    TopologicalSorter(parts).prepare()
