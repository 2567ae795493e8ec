"""What tokens cost, in USD for a million of them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from gitlab_nightshift.settings.parts import Price


@dataclass(frozen=True)
class Tokens:
    """Tokens of an answer by kind. ``written`` went into the cache for five minutes, ``written_1h``
    for an hour, ``cached`` came out of it; ``input`` is the rest of the request."""

    input: int = 0
    output: int = 0
    written: int = 0
    written_1h: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True)
class Rates:
    """USD per million tokens of each kind."""

    input: float
    output: float
    written: float
    written_1h: float
    cached: float

    def cost(self, tokens: Tokens) -> float:
        """USD."""
        usd: float = sum(
            getattr(tokens, kind.name) * getattr(self, kind.name) for kind in fields(tokens)
        )
        return usd / 1_000_000


def _claude(input_usd: float, output_usd: float) -> Rates:
    """Anthropic's cache prices are fixed parts of the input price: 1.25, 2 and 0.1 of it."""
    return Rates(input_usd, output_usd, 1.25 * input_usd, 2 * input_usd, 0.1 * input_usd)


KNOWN: Mapping[str, Rates] = {
    "claude-opus-4-6": _claude(5, 25),
    "claude-sonnet-4-6": _claude(3, 15),
}


def all_rates(prices: Mapping[str, Price]) -> dict[str, Rates]:
    """The built-in prices, and those of the settings, which win. A model that has none costs an
    unknown sum, never nothing. The settings name no cache prices: for Claude they follow from the
    input price, elsewhere what came out of the cache counts like any other input."""
    own = {
        model: _claude(price.input, price.output)
        if model.startswith("claude-")
        else Rates(price.input, price.output, price.input, price.input, price.input)
        for model, price in prices.items()
    }
    return {**KNOWN, **own}
