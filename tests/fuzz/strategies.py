"""What the fuzz tests draw from, and their settings: the same examples in every run."""

import functools
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ODD_NUMBERS = st.sampled_from([0, -1, 1, 2**63, 10**400, 1e308, float("nan"), float("inf")])
ODD_TEXTS = st.sampled_from(
    ["", "\x00", "\ud800", "\u202e", "../../etc/passwd", "/merge", "HEAD", "0" * 40, "x" * 5000]
)


def steady(examples: int) -> settings:
    """So many examples, always the same ones. A profile with more examples than hypothesis' own 100
    has so many times as many, and other ones each time: ``--hypothesis-profile=long``."""
    times = max(settings().max_examples // 100, 1)
    return settings(
        max_examples=examples * times,
        derandomize=times == 1,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@functools.cache
def json_of(words: frozenset[str]) -> st.SearchStrategy[Any]:
    """JSON of any shape whose keys are often the right ones."""
    keys = st.sampled_from(["", *sorted(words)]) | st.text(max_size=3)
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        leaves | ODD_NUMBERS | ODD_TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=20,
    )


def places_in(value: Any) -> list[tuple[Any, ...]]:
    """The way to every value within a JSON value, the top itself first."""
    found: list[tuple[Any, ...]] = [()]
    parts: dict[Any, Any] = value if isinstance(value, dict) else {}
    if isinstance(value, list):
        parts = dict(enumerate(value))
    for name, inner in parts.items():
        found += [(name, *rest) for rest in places_in(inner)]
    return found


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A copy of a JSON value with another value at a place."""
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = replaced(value[place[0]], place[1:], new)
    return copy


def at(value: Any, place: tuple[Any, ...]) -> Any:
    """The value at a place."""
    return functools.reduce(lambda inner, name: inner[name], place, value)


@st.composite
def spoiled(draw: st.DrawFn, value: Any, words: frozenset[str]) -> Any:
    """A JSON value with one or two values in it replaced by something else, or by each other."""
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(places_in(value)[1:]))
        other = st.sampled_from(places_in(value)).map(functools.partial(at, value))
        value = replaced(value, place, draw(json_of(words) | other))
    return value


@st.composite
def spoiled_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a few of them changed, left out, doubled or moved."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 80)))
        new = draw(st.binary(max_size=8) | st.just(data[start:end] * 2) | st.just(b""))
        data = data[:start] + new + data[end:]
    return data
