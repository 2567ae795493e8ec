"""``nightshift providers``: the agents installed here, their versions, and what each can do."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gitlab_nightshift import __version__
from gitlab_nightshift.agents import load_provider
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.registry.agent_registry import AGENTS
from gitlab_nightshift.sandbox.process import capture
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.stages.work.gateway_access import check_cost_limit
from gitlab_nightshift.system.environment import DEFAULT_PATH
from gitlab_nightshift.system.file_names import format_path

VERSION_S = 20.0
"""Seconds for a CLI to print its version."""
LONGEST_VERSION = 80
MODEL_NETWORK = "its model by the gateway; nothing else but policy.egress_hosts"


@dataclass(frozen=True)
class ProviderRow:
    """One agent on this machine. ``auto``: ``agent: auto`` may choose it. ``key`` is the name of
    the model key variable that is set. ``missing`` is why the agent cannot be used here, "" if it
    can. ``executable`` is "" for a part of this package."""

    name: str
    auto: bool
    usable: bool
    missing: str
    executable: str
    version: str
    key: str
    tools: str
    answer: str
    cost: str
    network: str


def list_providers(settings: Settings, env: Mapping[str, str]) -> tuple[ProviderRow, ...]:
    """All agents of the table, in its order; a CLI is asked for its version."""
    return tuple(_build_row(name, settings, env) for name in AGENTS)


def _build_row(name: str, settings: Settings, env: Mapping[str, str]) -> ProviderRow:
    agent_settings = settings.with_agent(name)
    if settings.agent != name:  # agent_executable is the path of another agent's CLI
        agent_settings = agent_settings.with_values(agent_executable=None)
    provider = load_provider(name, agent_settings)
    missing = ""
    try:
        provider.check(env)
        check_cost_limit(agent_settings, provider, env)
    except NightshiftError as error:
        missing = error.message.splitlines()[0]
    info = provider.info
    program = info.cli and (agent_settings.agent_executable or info.cli)
    executable = shutil.which(program, path=env.get("PATH", DEFAULT_PATH)) if program else ""
    return ProviderRow(
        name=name,
        auto=AGENTS[name].auto,
        usable=not missing,
        missing=missing,
        executable=executable or "",
        version=_read_version(executable, env) if program else __version__,
        key=next((key for key in provider.keys if env.get(key)), ""),
        tools=info.tools,
        answer=info.answer_checked_by,
        cost=info.cost,
        network=MODEL_NETWORK if provider.keys else "none",
    )


def _read_version(executable: str | None, env: Mapping[str, str]) -> str:
    """The first line of a CLI's version, "" if it reports none."""
    if not executable:
        return ""
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        # A CLI gets no key and an empty HOME: printing a version needs neither.
        bare_env = {"PATH": env.get("PATH", DEFAULT_PATH), "HOME": home, "TERM": "dumb"}
        command = [executable, "--version"]
        finished = capture(command, cwd=Path(home), env=bare_env, timeout_s=VERSION_S)
    lines = finished.stdout.decode("utf-8", "replace").strip().splitlines()
    return format_path(lines[0])[:LONGEST_VERSION] if finished.ok and lines else ""


def format_rows(rows: tuple[ProviderRow, ...], *, as_json: bool) -> str:
    """The rows for a person, or as JSON."""
    if as_json:
        return json.dumps({"providers": [asdict(row) for row in rows]}, indent=2) + "\n"
    return "\n".join("\n".join(_format_row(row)) for row in rows) + "\n"


def _format_row(row: ProviderRow) -> list[str]:
    state = "usable" if row.usable else f"not usable: {row.missing}"
    if row.executable:
        program = f"{row.executable} ({row.version or 'version not reported'})"
    else:
        program = "part of nightshift" if row.version else "not installed"
    return [
        f"{row.name}{' (auto)' if row.auto else ''}: {state}",
        f"  program  {program}",
        f"  key      {f'{row.key} [set]' if row.key else '-'}",
        f"  tools    {row.tools}",
        f"  answers  {row.answer}",
        f"  cost     {row.cost}",
        f"  network  {row.network}",
        "",
    ]
