"""A run's cost is bounded by a price for each of its models, or by a number of tokens."""

from collections.abc import Mapping

from gitlab_nightshift.agents.agent import Provider
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gateway.anthropic import list_plain_models
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.settings.model import Settings


def check_bounds(settings: Settings, provider: Provider, env: Mapping[str, str]) -> None:
    """Raise ``E_CONFIG`` if ``max_budget_usd`` cannot be enforced and no other limit is set.

    Agents that do not use the gateway (a replay, a cloud's own credentials) are not checked.
    """
    if settings.max_tokens is not None or not provider.keys or provider.find_cloud_variables(env):
        return
    models = list_plain_models(filter(None, vars(settings.models).values()))
    if missing := sorted(models - merge_rates(settings.prices).keys()):
        example = f"prices: {{{missing[0]}: {{input: 1.25, output: 10}}}}"
        raise build_config_error(
            f"prices: none is known for {', '.join(missing)}, so max_budget_usd cannot hold: set it"
            f" in USD per million tokens, such as {example}, or set max_tokens"
        )
