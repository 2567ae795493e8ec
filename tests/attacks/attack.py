"""What an attack on the machine is, and all there are. Standard library only: this runs inside the
sandbox."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.attacks.places import Places

Attempt = Callable[[Places], str | None]
"""Runs inside the sandbox; returns its loot."""
Needs = Callable[[Places], object]
Seen = Callable[[Places], bool]


@dataclass(frozen=True)
class Attack:
    """``README.md`` says what each part means."""

    attempt: Attempt
    promise: str
    must_fail: str
    needs: Needs | None
    seen: Seen | None
    a_right: bool
    open_in: Mapping[str, str]


def demand(why: str, ask: Callable[[Places], object]) -> Needs:
    """What the machine has to have: ``ask`` finds something, else this is why not."""

    def needs(places: Places) -> None:
        assert ask(places), why

    return needs


NETWORK: Final = demand("no network on this machine", lambda places: places.own_address)
ITSELF: Final = "itself"
"""``needs`` of an attack that is what this machine may not let anybody do."""
_KNOWN: dict[str, Attack] = {}


def attack_on(
    promise: str,
    must_fail: str,
    *,
    needs: Needs | str | None = None,
    seen: Seen | None = None,
    a_right: bool = False,
    open_in: Mapping[str, str] | None = None,
) -> Callable[[Attempt], Attempt]:
    """Add a function, under its name, to the attacks."""

    def add(attempt: Attempt) -> Attempt:
        asked = demand(needs, attempt) if isinstance(needs, str) else needs
        if needs == ITSELF:  # what it raises is why not, whatever it gives
            asked = attempt
        known = Attack(attempt, promise, must_fail, asked, seen, a_right, open_in or {})
        assert _KNOWN.setdefault(attempt.__name__, known) is known
        return attempt

    return add


def read_corpus() -> dict[str, Attack]:
    """All attacks, by name."""
    for file in sorted((Path(__file__).parent / "machine").glob("*.py")):
        import_module(f"tests.attacks.machine.{file.stem}")
    return dict(sorted(_KNOWN.items()))
