"""Names in a test that stand for the test itself: what is called on them asserts."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from gitlab_nightshift.proof.syntax.languages import Language
from gitlab_nightshift.proof.syntax.nodes import (
    find_field,
    list_arguments,
    read_chain,
    read_text,
    walk,
)
from gitlab_nightshift.proof.syntax.variable_values import read_assignment

_SCRIPTS = ("javascript", "typescript", "tsx")
_DEEPEST = 60


def find_handles(body: Node, language: Language) -> frozenset[str]:
    """``st`` of ``t.test("adds", (st) => …)``, and ``r`` of ``r := require.New(t)``."""
    if language.name not in (*_SCRIPTS, "go"):
        return frozenset()
    found = set(_list_parameters(body, language.name == "go"))
    for node in walk(body) if language.name == "go" else ():
        pair = read_assignment(node)
        if pair and _is_bound(pair[1], found):
            found.add(read_text(pair[0]))
    return frozenset(found)


def _list_parameters(body: Node, is_go: bool) -> Iterator[str]:
    """The first parameter of each function around, in Go those for tests and suites."""
    node: Node | None = body
    for _ in range(_DEEPEST):
        if node is None:
            return
        given = find_field(node, "parameters", "parameter")
        said = read_text(given) if given is not None else ""
        if is_go:
            said += read_text(find_field(node, "receiver")) if given is not None else ""
            yield from re.findall(r"(\w+)\s+(?:\*?testing\.\w+|\*\w*Suite\b)", said)
        elif first := re.match(r"\(?\s*([A-Za-z_$][\w$]*)", said):
            yield first[1]
        node = node.parent


def _is_bound(value: Node, handles: set[str]) -> bool:
    """``require.New(t)``, ``NewWithT(t)``, ``s.Require()``."""
    call = value.named_children[0] if value.type == "expression_list" else value
    links = read_chain(call) if call is not None else ()
    if not links or links[-1].args is None:
        return False
    passed = {read_text(each) for each in list_arguments(call)}
    on_suite = links[-1].name in ("Require", "Assert") and links[0].name in handles
    return on_suite or (links[-1].name.startswith("New") and bool(passed & handles))
