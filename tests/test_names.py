"""The names of the package and the sizes of its modules: a class name is in one module only, a
function begins with a verb."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.world import ROOT

PACKAGE = ROOT / "gitlab_nightshift"
APART = {"recording", "sample"}
"""What the demo plays and shows."""
LONGEST_MODULE = 450
"""Lines."""
TWINS = {"__init__", "inside"}
"""Parts of a kind: what initializes a package, what runs on the sandbox's far side."""
IDIOMS = {"to", "from", "as", "with", "is", "has", "can", "main"}
"""Python's own words for conversions, copies, predicates and the start of a program."""
DICTATED = {
    *("connection_made", "connection_lost", "eof_received"),  # asyncio.Protocol
    *("server_bind", "shutdown_request"),  # socketserver
    "http_request",  # python-gitlab
    "error",  # argparse
    "redirect_request",  # urllib
    "items",  # collections.abc.Mapping
}
"""Names that a library calls."""
VERBS = frozenset(
    """
    accept add allocate allow analyze answer append apply approve ask assemble assign attach
    authenticate authorize await become begin bind branch break build cache call cancel capture
    carry catch change check choose classify clean close collect combine commit communicate
    compare compile complete compute configure confine confirm connect construct continue
    convert copy count create cut decide decode dedent deepen defer delegate delete deliver
    deny describe detect dial disable discard disconnect discover do download draft drain draw
    drop edit emit enable encode end ensure enter escape estimate evaluate examine execute exit
    expand explain fail feed fetch fill filter finalize find finish fit flatten flush fold
    follow forbid forgive fork format forward frame gather get give grant greet group hand
    handle hide hold identify ignore implement import insert install interact join judge keep
    kill launch leave let limit link list listen load locate lock log look main make map mark
    mask match measure merge mount move mutate narrow normalize notarize note notify open order
    outlive override pack package paint pair parse pass pick pin place plan plant play post
    predict prepare preview print probe propose prove publish push put quote raise rank read
    reap rebase rebuild receive recognize record recover recreate redact reduce refresh refuse
    refute register relay release remember remove rename render renew repeat replace reply
    report request require rescan reserve resolve respond restore restrict retry revoke rewrite
    rotate run save scan score search select send serve set settle share shorten show shut sign
    signal sleep sort split spread stage start stop store stream strip style subtract suggest
    summarize supervise switch take tell tick tolerate track transfer try tunnel turn undo
    unescape unify unlink unmask unpack unquote unwrap update use validate verify wait wake
    walk warn watch weaken work wrap write
    """.split()
)
PRIVATE = frozenset(
    "room reach fence lay cover course bench site desk ground standing keeper family sweep told"
    " opens seen hall stand stands stood said says fallen came noting handles telling deaf"
    " blunted unlike unfit truly begun began lack gap".split()
)
"""Words with a meaning that only this project knew."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed() -> dict[Path, ast.Module]:
    files = (path for path in PACKAGE.rglob("*.py") if not APART & set(path.parts))
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in sorted(files)}


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """They are forgotten afterwards: a hundred megabytes that each fork would have."""
    yield
    parsed.cache_clear()


def functions() -> Iterator[tuple[Path, Function]]:
    for path, tree in parsed().items():
        for node in ast.walk(tree):
            if isinstance(node, Function) and not node.name.startswith("__") and node.name != "_":
                yield path, node


def is_exempt(node: Function) -> bool:
    """A property is a noun, a predicate may be an adjective; what a library calls it names."""
    marks = {ast.unparse(each) for each in node.decorator_list}
    if any("property" in mark or mark.endswith(".setter") for mark in marks):
        return True
    returns = ast.unparse(node.returns) if node.returns else ""
    predicate = returns == "bool" or returns.startswith(("TypeIs", "TypeGuard"))
    return predicate or node.name in DICTATED


def test_functions_begin_with_a_verb() -> None:
    known = VERBS | IDIOMS
    odd = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in functions()
        if not is_exempt(node) and node.name.strip("_").split("_")[0] not in known
    ]
    assert odd == [], "begin with a verb; where it is one, add it to VERBS"


def test_a_class_name_stands_in_one_module() -> None:
    where = defaultdict(set)
    for path, tree in parsed().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where[node.name].add(str(path))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_a_module_name_stands_once() -> None:
    where = defaultdict(set)
    for path in parsed():
        where[path.stem].add(str(path))
    twice = {name: paths for name, paths in where.items() if len(paths) > 1 and name not in TWINS}
    assert twice == {}


def test_a_module_can_be_read_at_once() -> None:
    lines = {path: (PACKAGE / path).read_text().count("\n") for path in parsed()}
    assert {path: count for path, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_module_looks_like_a_test() -> None:
    assert [path for path in parsed() if path.stem.startswith(("test_", "tests_"))] == []


def test_no_definition_has_a_private_word() -> None:
    names = [str(path.with_suffix("")) for path in parsed()]
    names += [node.name for _, node in functions()]
    names += [
        node.name
        for tree in parsed().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    # Sockets have an address family.
    odd = [name for name in names if PRIVATE & words_of(name.replace("address_family", ""))]
    assert odd == []


def words_of(name: str) -> set[str]:
    """``_OneName``, ``one_name`` and ``one/name`` → one, name."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return set(spaced.lower().replace("_", " ").replace("/", " ").split())
