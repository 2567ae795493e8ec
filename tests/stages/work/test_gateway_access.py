"""A night whose cost cannot be limited does not start."""

from collections.abc import Mapping

import pytest

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit


def refusal(own: Mapping[str, str], env: Mapping[str, str] = {}) -> str:
    """Why such settings are refused, "" if they are not."""
    settings = choose_agent(load_settings({}, None, dict(own)), {}).settings
    try:
        check_cost_limit(settings, build_provider(settings), env)
    except NightshiftError as error:
        assert error.exit_status == 2
        return error.message
    return ""


def test_the_models_of_claude_and_codex_have_prices() -> None:
    assert refusal({"agent": "claude_code"}) == ""
    assert refusal({"agent": "codex"}) == ""
    assert refusal({"agent": "claude_code", "models.analyze": "claude-opus-4-6[1m]"}) == ""


def test_a_model_without_a_price_is_named_with_what_to_do() -> None:
    own = {"agent": "codex", "models.mr": "mine", "models.verify": "other"}
    assert refusal(own) == (
        "prices: none is known for mine, other, so max_budget_usd cannot hold: set it"
        " in USD per million tokens, such as prices: {mine: {input: 1.25, output: 10}},"
        " or set max_tokens"
    )
    one = '{"mine": {"input": 1, "output": 2}}'
    assert refusal({**own, "prices": one}).startswith("prices: none is known for other, so")
    assert "none is known for local," in refusal({"agent": "patch", "models.implement": "local"})


@pytest.mark.parametrize(
    "own",
    [
        {"agent": "codex", "models.mr": "mine", "max_tokens": "1000"},
        {"agent": "patch", "models.implement": "m", "prices": '{"m": {"input": 0, "output": 0}}'},
        {"agent": "replay", "replay_dir": "recorded", "models.analyze": "m"},
        {"agent": "patch"},
    ],
)
def test_limited_agents_and_those_without_a_gateway_are_not_refused(own: dict[str, str]) -> None:
    assert refusal(own) == ""


def test_prices_do_not_matter_with_a_clouds_credentials() -> None:
    """The agent then asks its model without the gateway."""
    own = {"agent": "claude_code", "models.analyze": "us.anthropic.claude"}
    assert "us.anthropic.claude" in refusal(own)
    own["agent_env"] = '["CLAUDE_CODE_USE_BEDROCK", "AWS_BEARER_TOKEN_BEDROCK"]'
    env = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_BEARER_TOKEN_BEDROCK": "x"}
    assert refusal(own, env) == ""
