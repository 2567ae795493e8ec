"""Which agent does a delegation: the policy's rule, the team's agent, codex, claude_code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.events import Emit, GateDenied, Note
from gitlab_nightshift.records.delegation import Payload, ProviderUsed
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.work.agents import PROVIDERS
from gitlab_nightshift.work.bounds import check_bounds

AUTO = ("codex", "claude_code")
FALLBACK = "patch"
DEFAULT_RULE = "default"
KINDS = (
    ("security", r"security|vulnerab\w*|injection|xss|csrf|cve"),
    ("bugfix", r"fix\w*|bug\w*|crash\w*|broken|wrong|fail\w*|error"),
    ("docs", r"docs?|document\w*|readme|comments?|docstrings?|changelog|typos?"),
    ("tests", r"tests?|coverage"),
    ("refactor", r"refactor\w*|renam\w*|extract|simplif\w*|clean ?up|deduplicat\w*"),
    ("performance", r"performance|faster|slow\w*|speed|optimi[sz]\w*"),
)
"""Kinds of tasks by words of the prompt, the first that fits; else it is a ``feature``."""
_USED: Mapping[str, ProviderUsed] = {
    "codex": "codex",
    "claude_code": "claude_code",
    "replay": "claude_code",
    FALLBACK: "patch_fallback",
}


@dataclass(frozen=True)
class Chosen:
    """The settings with the agent that does the task."""

    settings: Settings

    @property
    def used(self) -> ProviderUsed:
        """How the result names it."""
        return _USED[self.settings.agent]

    @property
    def model(self) -> str | None:
        """The model of Implement."""
        return self.settings.models.implement or None


def kind_of(prompt: str) -> str:
    """The kind of a task, by its words: for the rules of ``policy.providers`` alone."""
    found = (kind for kind, words in KINDS if re.search(rf"\b(?:{words})\b", prompt, re.I))
    return next(found, "feature")


def choose(payload: Payload, settings: Settings, env: Mapping[str, str], emit: Emit) -> Chosen:
    """The agent, checked: its CLI and its key are there.

    Raises NightshiftError ``E_POLICY_DENY`` where the policy has another one do such tasks,
    ``E_PROVIDER_UNAVAILABLE``, ``E_CONFIG``.
    """
    kind = kind_of(payload.task_prompt)
    rule = _rule(settings, kind)
    if rule and payload.provider not in ("auto", rule):
        why = f"policy.providers: {kind} tasks are done by {rule}, not by {payload.provider}"
        emit(GateDenied("exec", why))
        raise NightshiftError(Code.POLICY_DENY, why)
    names = _candidates(payload, settings, rule)
    missing: list[str] = []
    for name in names:
        chosen = Chosen(_with_model(_as(settings, name, payload), payload.model))
        try:
            _check(chosen.settings, env)
        except NightshiftError as error:
            if error.code is not Code.PROVIDER_UNAVAILABLE:
                raise
            missing.append(f"{name}: {error.message}")
        else:
            emit(Note(f"agent {name}, for a {kind} task"))
            return chosen
    raise NightshiftError(Code.PROVIDER_UNAVAILABLE, "; ".join(missing))


def _check(settings: Settings, env: Mapping[str, str]) -> None:
    provider = PROVIDERS[settings.agent](settings)
    provider.check(env)
    check_bounds(settings, provider, env)


def _rule(settings: Settings, kind: str) -> str:
    """What the policy says of this kind, of this profile, or of all."""
    rules = settings.policy.providers
    found = (rules[key] for key in (kind, settings.profile, DEFAULT_RULE) if key in rules)
    rule = next(found, "")
    if rule and rule not in AUTO:
        raise config_error(f"policy.providers: {rule!r} is no agent; {' and '.join(AUTO)} are")
    return rule


def _candidates(payload: Payload, settings: Settings, rule: str) -> tuple[str, ...]:
    if payload.debug.codex_command:
        return ("codex",)
    if payload.provider != "auto":
        return (payload.provider,)
    if rule:
        return (rule,)
    return AUTO if settings.agent == "auto" else (settings.agent,)


def _as(settings: Settings, name: str, payload: Payload) -> Settings:
    """The team's program is that of the team's agent, not of every one."""
    words, own = payload.debug.codex_command, settings.agent in ("auto", name)
    program = words[0] if words else settings.agent_executable if own else None
    return settings.for_agent(name).model_copy(update={"agent_executable": program})


def _with_model(settings: Settings, model: str | None) -> Settings:
    if model is None:
        return settings
    models = settings.models.model_copy(update={"implement": model, "verify": model})
    return settings.model_copy(update={"models": models})


# --- the fallback -----------------------------------------------------------------------------


def may_fall_back(payload: Payload, code: Code) -> bool:
    """Only where the chosen agent cannot be used, or was itself denied."""
    denied = (Code.PROVIDER_UNAVAILABLE, Code.POLICY_DENY)
    return payload.execution.allow_fallback and code in denied


def fallback(
    payload: Payload,
    settings: Settings,
    env: Mapping[str, str],
    instead_of: NightshiftError,
    emit: Emit,
) -> Chosen:
    """The patch provider, with the team's models, else codex's, which speak the same API.

    Raises ``instead_of``, with why there is no fallback either.
    """
    model = payload.model if payload.provider == "codex" else None
    own = _with_model(settings.for_agent("codex"), model)
    chosen = Chosen(own.model_copy(update={"agent": FALLBACK}))
    try:
        _check(chosen.settings, env)
    except NightshiftError as error:
        text = f"{instead_of.message}; and no fallback: {error.message}"
        raise NightshiftError(instead_of.code, text) from None
    emit(Note(f"{instead_of.message}; {FALLBACK} takes over", warning=True))
    return chosen
