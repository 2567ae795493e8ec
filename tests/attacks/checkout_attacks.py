"""What an attack on a checkout is: those of ``git/``, which end with a push, and those on whoever
reads the tree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tests.attacks.git_world import Places

Attempt = Callable[[Path, Places], None]
"""Prepares the tree, its ``.git`` or HOME as an agent would."""


@dataclass(frozen=True)
class CheckoutAttack:
    """``README.md`` says what each part means. ``limits`` are values of ``capture.py`` that a test
    sets; ``token_by`` is ``helper`` (a careless program's own credential helper) or
    ``ssh_askpass``."""

    attempt: Attempt
    must_fail: str
    gains: tuple[str, ...]
    control: str = ""
    held_by_git: str = ""
    refused: str = ""
    also: tuple[str, ...] = ()
    token_by: str = "helper"
    limits: Mapping[str, int] = field(default_factory=dict)


_GIT: dict[str, CheckoutAttack] = {}
_TREE: dict[str, CheckoutAttack] = {}


def git_attack(
    must_fail: str,
    gains: tuple[str, ...],
    *,
    held_by_git: str = "",
    refused: str = "",
    also: tuple[str, ...] = (),
    token_by: str = "helper",
) -> Callable[[Attempt], Attempt]:
    """Add a function, under its name, to the attacks that end with a push."""

    def add(attempt: Attempt) -> Attempt:
        _GIT[attempt.__name__] = CheckoutAttack(
            attempt, must_fail, gains, "", held_by_git, refused, also, token_by
        )
        return attempt

    return add


def tree_attack(
    must_fail: str,
    control: str,
    gains: str,
    *,
    held_by_git: str = "",
    refused: str = "",
    limits: Mapping[str, int] | None = None,
) -> Callable[[Attempt], Attempt]:
    """Add a function, under its name, to the attacks on readers of the tree."""

    def add(attempt: Attempt) -> Attempt:
        _TREE[attempt.__name__] = CheckoutAttack(
            attempt, must_fail, (gains,), control, held_by_git, refused, limits=limits or {}
        )
        return attempt

    return add


def list_git_attacks() -> dict[str, CheckoutAttack]:
    """By name."""
    for file in sorted((Path(__file__).parent / "git").glob("*.py")):
        import_module(f"tests.attacks.git.{file.stem}")
    return dict(sorted(_GIT.items()))


def list_tree_attacks() -> dict[str, CheckoutAttack]:
    """By name."""
    import_module("tests.attacks.tree_attacks")
    return dict(sorted(_TREE.items()))
