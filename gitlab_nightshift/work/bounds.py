"""What bounds the cost of a run: a price for each of its models, or a number of tokens."""

from collections.abc import Mapping

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host.gateway.anthropic import plain_models
from gitlab_nightshift.host.gateway.prices import all_rates
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents.base import Provider


def check_bounds(settings: Settings, provider: Provider, env: Mapping[str, str]) -> None:
    """Raise ``E_CONFIG`` where ``max_budget_usd`` could not hold, and nothing else would.

    Agents that ask no model by the gateway (a replay, a cloud's own credentials) are not judged.
    """
    if settings.max_tokens is not None or not provider.keys or provider.direct(env):
        return
    models = plain_models(filter(None, settings.models.model_dump().values()))
    if missing := sorted(models - all_rates(settings.prices).keys()):
        example = f"prices: {{{missing[0]}: {{input: 1.25, output: 10}}}}"
        raise config_error(
            f"prices: none is known for {', '.join(missing)}, so max_budget_usd cannot hold: set it"
            f" in USD per million tokens, such as {example}, or set max_tokens"
        )
