"""``nightshift config show``: the value of each setting, and where it came from."""

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents import build_provider, choose_agent
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.run.session_opening import read_config_file, read_uncommitted_config
from gitlab_nightshift.run_folder import Invocation, find_checkout_top
from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit
from gitlab_nightshift.system.environment import build_search_path

COMMON_SETTINGS = tuple(
    "verify_commands reviewer category_schedule timezone enabled paths exclude_paths instructions"
    " agent agent_env agent_paths policy.egress_hosts accept_partial max_budget_usd max_diff_lines"
    " notify log_issue".split()
)
"""The settings that most teams change, as in docs/configuration.md; others are shown if set."""
SECRET_NAMES = ("GITLAB_TOKEN", *MODEL_KEYS, "CONFLUENCE_TOKEN")
"""Variables that are shown as set or not, never by value."""


def format_settings(call: Invocation, *, show_all: bool = False) -> str:
    """A line per setting: key, value, source; without ``show_all`` only those of
    ``COMMON_SETTINGS`` and those that differ from the default. Secrets are shown as ``[set]``."""
    loaded = read_settings(call)
    settings = choose_agent(loaded, build_search_env(call)).settings
    values = settings.flatten_values()
    if loaded.agent == "auto":
        values["agent"] = f"auto (here {settings.agent})"
    rows, hidden = [], 0
    for key, value in values.items():
        source = settings.find_source(key)
        if show_all or key in COMMON_SETTINGS or source != "default":
            rows.append((key, _format_value(key, value), source))
        else:
            hidden += 1
    rows += [(name, "[set]" if call.env.get(name) else "-", "variable") for name in SECRET_NAMES]
    key_width = max(len(key) for key, _, _ in rows)
    # A longer value does not widen the column for all.
    value_width = min(max(len(value) for _, value, _ in rows), 60)
    lines = [f"{key:<{key_width}}  {value:<{value_width}}  {source}" for key, value, source in rows]
    if hidden:
        lines.append(f"{hidden} more settings have their default: --all shows them")
    if error := _find_error(settings, call):
        lines.append(f"a night would end with {error.code.value}: {error.message}")
    return "\n".join(lines)


def _find_error(settings: Settings, call: Invocation) -> NightshiftError | None:
    """The error with which these settings would end a night, if any."""
    try:
        check_cost_limit(settings, build_provider(settings), call.env)
    except NightshiftError as error:
        return error
    return None


def read_settings(call: Invocation) -> Settings:
    """The settings that a run would use, also outside a checkout."""
    return load_settings(call.env, _read_config(call), call.overrides)


def build_search_env(call: Invocation) -> Mapping[str, str]:
    """The environment in which a night looks for programs: no folder of the checkout is on PATH."""
    try:
        checkout = find_checkout_top(call.folder)
    except NightshiftError:
        return call.env
    return {**call.env, "PATH": build_search_path(call.env, checkout)}


def _read_config(call: Invocation) -> ConfigFile | None:
    """The file as a run would read it; outside a checkout, the one in the current folder."""
    try:
        checkout = find_checkout_top(call.folder)
    except NightshiftError:
        return read_uncommitted_config(call.folder / (call.config or FILE_NAME))
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = build_isolated_git(Path(home), build_search_path(call.env, checkout))
        return read_config_file(call, checkout, git)[0]


def _format_value(key: str, value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    # A webhook's URL contains its credentials.
    return re.sub(r"(?<=://)[^\s\"',]+", "[set]", text) if key == "notify" else text
