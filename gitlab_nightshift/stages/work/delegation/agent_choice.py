"""Chooses the agent of a delegation: as the payload or the policy says, else the team's, else codex
or claude_code; and the fallback for an agent that cannot be used."""

import math
import re
from collections.abc import Mapping

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gateway.anthropic import LONG_CONTEXT
from gitlab_nightshift.gateway.prices import merge_rates
from gitlab_nightshift.records.delegation_records import Payload, ProviderUsed
from gitlab_nightshift.records.events import Emit, GateDenied, Note
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit

AUTO = ("codex", "claude_code")
"""The agents to choose from, in this order."""
FALLBACK = "model"
DEFAULT_RULE, CHEAPEST = "default", "cheapest"
TASK_KINDS = (
    ("security", r"security|vulnerab\w*|injection|xss|csrf|cve"),
    ("bugfix", r"fix\w*|bug\w*|crash\w*|broken|wrong|fail\w*|error"),
    ("docs", r"docs?|document\w*|readme|comments?|docstrings?|changelog|typos?"),
    ("tests", r"tests?|coverage"),
    ("refactor", r"refactor\w*|renam\w*|extract|simplif\w*|clean ?up|deduplicat\w*"),
    ("performance", r"performance|faster|slow\w*|speed|optimi[sz]\w*"),
)
"""Kinds of tasks, and the words of a prompt by which they are detected: the first match counts."""
_PROVIDERS_USED: Mapping[str, ProviderUsed] = {
    "codex": "codex",
    "claude_code": "claude_code",
    "replay": "claude_code",
    "patch": "patch_fallback",
    FALLBACK: "patch_fallback",
}
"""Agent → its name in a result."""


def describe_agent(settings: Settings) -> tuple[ProviderUsed, str | None]:
    """The agent of these settings as a result names it, and the model of Implement."""
    return _PROVIDERS_USED[settings.agent], settings.models.implement or None


def detect_task_kind(prompt: str) -> str:
    """The kind of a task, guessed from its words; only the rules of ``policy.providers`` use it."""
    kinds = (kind for kind, words in TASK_KINDS if re.search(rf"\b(?:{words})\b", prompt, re.I))
    return next(kinds, "feature")


def choose_agent(
    payload: Payload, settings: Settings, env: Mapping[str, str], emit: Emit
) -> Settings:
    """The settings with the agent that will do the task, whose CLI and key exist.

    Raises NightshiftError ``E_POLICY_DENY`` if the policy assigns such tasks to another agent,
    ``E_PROVIDER_UNAVAILABLE``, ``E_CONFIG``.
    """
    kind = detect_task_kind(payload.task_prompt)
    rule = _find_rule(settings, kind)
    if rule not in ("", CHEAPEST) and payload.provider not in ("auto", rule):
        why = f"policy.providers: {kind} tasks are done by {rule}, not by {payload.provider}"
        emit(GateDenied("exec", why))
        raise NightshiftError(Code.POLICY_DENY, why)
    names = _list_candidates(payload, settings, rule)
    missing: list[str] = []
    for name in names:
        chosen = _with_model(_with_agent(settings, name, payload), payload.model)
        try:
            _check_agent(chosen, env, price_required=len(names) > 1)
        except NightshiftError as error:
            if error.code is not Code.PROVIDER_UNAVAILABLE and len(names) == 1:
                raise
            missing.append(f"{name}: {error.message}")
        else:
            emit(Note(f"agent {name}, for a {kind} task"))
            return chosen
    raise NightshiftError(Code.PROVIDER_UNAVAILABLE, "; ".join(missing))


def _check_agent(
    settings: Settings, env: Mapping[str, str], *, price_required: bool = False
) -> None:
    """Raise NightshiftError if the settings' agent cannot be used; with ``price_required`` also if
    a price is unknown, even where ``max_tokens`` limits the run."""
    provider = build_provider(settings)
    provider.check(env)
    if price_required:
        settings = settings.with_values(max_tokens=None)
    check_cost_limit(settings, provider, env)


def _find_rule(settings: Settings, kind: str) -> str:
    """The policy's rule for tasks of this kind, else for the profile, else the default, else ""."""
    rules = settings.policy.providers
    keys = (kind, settings.profile, DEFAULT_RULE)
    rule = next((rules[key] for key in keys if key in rules), "")
    if rule and rule not in (*AUTO, CHEAPEST):
        raise build_config_error(
            f"policy.providers: {rule!r} is not an agent: use {', '.join(AUTO)} or {CHEAPEST}"
        )
    return rule


def _list_candidates(payload: Payload, settings: Settings, rule: str) -> tuple[str, ...]:
    if payload.debug.codex_command:
        return ("codex",)
    if payload.provider != "auto":
        return (payload.provider,)
    if rule == CHEAPEST:
        return tuple(sorted(AUTO, key=lambda name: _find_price(settings, name, payload)))
    if rule:
        return (rule,)
    return AUTO if settings.agent == "auto" else (settings.agent,)


def _find_price(settings: Settings, name: str, payload: Payload) -> float:
    """USD for a million tokens in and a million out of Implement's model; infinite if unknown."""
    model = payload.model or settings.with_agent(name).models.implement
    # Claude Code's suffix for the long context is no part of the model's id.
    rates = merge_rates(settings.prices).get(model.removesuffix(LONG_CONTEXT))
    return rates.input + rates.output if rates else math.inf


def _with_agent(settings: Settings, name: str, payload: Payload) -> Settings:
    # The team's agent_executable is the program of its own agent only.
    executable = settings.agent_executable if settings.agent in ("auto", name) else None
    if command := payload.debug.codex_command:
        executable = command[0]
    return settings.with_agent(name).with_values(agent_executable=executable)


def _with_model(settings: Settings, model: str | None) -> Settings:
    if model is None:
        return settings
    models = settings.models.with_values(implement=model, verify=model)
    return settings.with_values(models=models)


# --- the fallback ---------------------------------------------------------------------------------


def may_fall_back(payload: Payload, code: Code) -> bool:
    """True if a fallback is allowed and the chosen agent cannot be used or is denied."""
    denied = (Code.PROVIDER_UNAVAILABLE, Code.POLICY_DENY)
    return payload.execution.allow_fallback and code in denied


def choose_fallback(payload: Payload, settings: Settings, env: Mapping[str, str]) -> Settings:
    """The settings with the agent ``model``, and the team's models or else codex's, which speak the
    same API. Raises NightshiftError if that agent cannot be used either."""
    model = payload.model if payload.provider == "codex" else None
    chosen = _with_model(settings.with_agent("codex"), model).with_values(agent=FALLBACK)
    _check_agent(chosen, env)
    return chosen
