"""What a file exports; tests/pairs/public_names.pairs has changes that remove exports."""

from gitlab_nightshift.proof.reading.public_interface import find_exports
from gitlab_nightshift.proof.syntax.file_side import Side


def test_the_line_of_an_overloaded_name_is_deterministic() -> None:
    """tree-sitter returns what a query captures in the order of its addresses."""
    kinds = ("string", "number", "boolean", "Date", "RegExp", "Map", "Set", "symbol")
    overloads = [f"export function total(items: {kind}[]): {kind}" for kind in kinds]
    source = "\n".join(["declare namespace cart {", *overloads, "}"]).encode()
    sides = [Side("src/cart.d.ts", source) for _ in range(20)]
    assert len({find_exports(side)["total"] for side in sides}) == 1
