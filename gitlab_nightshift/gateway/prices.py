"""Token prices, in USD per million."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from gitlab_nightshift.settings.setting_groups import Price


@dataclass(frozen=True)
class Tokens:
    """Tokens of a request and its answer. ``written`` were written into the cache for five minutes,
    ``written_1h`` for an hour, ``cached`` were read from it; ``input`` is the rest of the
    request."""

    input: int = 0
    output: int = 0
    written: int = 0
    written_1h: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """Tokens of all kinds."""
        return sum(getattr(self, field.name) for field in fields(self))

    def __add__(self, other: Self) -> "Tokens":
        names = [field.name for field in fields(self)]
        return Tokens(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class Rates:
    """USD per million tokens of each kind. A request with more than ``long_above`` tokens of input
    costs ``long`` as a whole."""

    input: float
    output: float
    written: float
    written_1h: float
    cached: float
    long_above: int = 0
    long: "Rates | None" = None

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Rates":
        """The rates of a record: the codec cannot decode a type that contains itself."""
        long = data["long"]
        return cls(**{**data, "long": cls.from_data(long) if long else None})

    def compute_cost(self, tokens: Tokens) -> float:
        """USD of one request."""
        rates = self.pick_rates(tokens)
        usd: float = sum(
            getattr(tokens, kind.name) * getattr(rates, kind.name) for kind in fields(tokens)
        )
        return usd / 1_000_000

    def pick_rates(self, tokens: Tokens) -> "Rates":
        """These rates, or ``long`` if the request's input is that long."""
        return self.long if self.long and tokens.total - tokens.output > self.long_above else self


def _build_claude_rates(input_usd: float, output_usd: float) -> Rates:
    """Anthropic's: writing to the cache costs 1.25 times the input price, or twice for an hour,
    reading at most a tenth."""
    return Rates(input_usd, output_usd, 1.25 * input_usd, 2 * input_usd, 0.1 * input_usd)


def _build_gpt_rates(input_usd: float, output_usd: float, cached_usd: float) -> Rates:
    """OpenAI's: writing to the cache costs 1.25 times the input price; above 272,000 tokens of
    input, a request costs twice as much for input and half as much again for output."""
    rates = Rates(input_usd, output_usd, 1.25 * input_usd, 1.25 * input_usd, cached_usd)
    long = Rates(2 * input_usd, 1.5 * output_usd, 2.5 * input_usd, 2.5 * input_usd, 2 * cached_usd)
    return replace(rates, long_above=272_000, long=long)


def _build_plain_rates(input_usd: float, output_usd: float) -> Rates:
    """Elsewhere writing to the cache costs up to 1.25 times the input price, for any time."""
    return Rates(input_usd, output_usd, 1.25 * input_usd, 1.25 * input_usd, input_usd)


KNOWN_RATES: Mapping[str, Rates] = {
    **dict.fromkeys(("claude-fable-5", "claude-fable-5-1"), _build_claude_rates(10, 50)),
    **dict.fromkeys(
        (f"claude-opus-4-{minor}" for minor in (5, 6, 7, 8)), _build_claude_rates(5, 25)
    ),
    "claude-opus-5": _build_claude_rates(5, 25),
    "claude-opus-5-5": _build_claude_rates(4, 20),
    "claude-sonnet-4-6": _build_claude_rates(3, 15),
    "claude-sonnet-5-5": _build_claude_rates(2, 10),
    "claude-haiku-4-5": _build_claude_rates(1, 5),
    "claude-haiku-5-5": replace(
        _build_claude_rates(0.1, 0.5), long_above=100_000, long=_build_claude_rates(0.5, 2.5)
    ),
    "gpt-6.1-sol": _build_gpt_rates(2, 10, 0.1),
    "gpt-6-luna": _build_gpt_rates(0.1, 0.5, 0.01),
}
"""Anthropic's price list and, for codex's own models, OpenAI's, both of November 2026."""


def merge_rates(prices: "Mapping[str, Price]") -> dict[str, Rates]:
    """The built-in prices, overridden by those of the settings. A model without a price has an
    unknown cost, never 0. Cache prices are derived from the input price, as the settings have none;
    for models other than Claude, cached input costs as much as any."""
    rates = {model.removesuffix("[1m]"): _build_rates(model, prices[model]) for model in prices}
    return {**KNOWN_RATES, **rates}


def _build_rates(model: str, price: "Price") -> Rates:
    build = _build_claude_rates if model.startswith("claude-") else _build_plain_rates
    rates = build(price.input, price.output)
    if price.long is None:
        return rates
    long = build(price.long.input, price.long.output)
    return replace(rates, long_above=price.long.above, long=long)
