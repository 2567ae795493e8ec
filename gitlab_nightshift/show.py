"""``nightshift config show``: every value, where it came from, and whether it is in force."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.session import Call, config_file, top_of
from gitlab_nightshift.settings import FILE_NAME, ConfigFile, Settings, load_settings, waits_for
from gitlab_nightshift.settings.job import MODEL_KEYS
from gitlab_nightshift.work.agents import chosen, provider_of
from gitlab_nightshift.work.bounds import check_bounds


def settings_table(call: Call) -> str:
    """A line per key: key, value, source. Secrets are shown as ``[set]``."""
    loaded = settings_of(call)
    settings = chosen(loaded, call.env).settings
    values = settings.values()
    if loaded.agent == "auto":
        values["agent"] = f"auto (here {settings.agent})"
    rows = [
        (key, _shown(key, value), settings.source(key) + _waiting(key))
        for key, value in values.items()
    ]
    rows += [(name, "[set]" if call.env.get(name) else "-", "variable") for name in _secret_names()]
    faults = _faults(settings, call)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = (
        f"{key:<{widths[0]}}  {value:<{min(widths[1], 60)}}  {source}"
        for key, value, source in rows
    )
    return "\n".join((*lines, *faults))


def _faults(settings: Settings, call: Call) -> tuple[str, ...]:
    """What a night with these settings would end with."""
    try:
        check_bounds(settings, provider_of(settings), call.env)
    except NightshiftError as error:
        return (f"a night would end with {error.code.value}: {error.message}",)
    return ()


def settings_of(call: Call) -> Settings:
    """The settings as a run would have them, also outside a checkout."""
    return load_settings(call.env, _file(call), call.overrides)


def _file(call: Call) -> ConfigFile | None:
    """The file as a run would read it; outside a checkout, the one that lies in the folder."""
    try:
        checkout = top_of(call.folder)
    except NightshiftError:
        path = call.folder / (call.config or FILE_NAME)
        return ConfigFile(path.name, path.read_text("utf-8")) if path.is_file() else None
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = git_verbs.pristine(Path(home), search_path(call.env, checkout))
        return config_file(call, checkout, git)[0]


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    # A notification URL holds its own credentials.
    return re.sub(r"(?<=://)[^\s\"',]+", "[set]", text) if key == "notify" else text


def _waiting(key: str) -> str:
    waits = waits_for(key)
    return f"  (not yet in force: waits for {waits})" if waits else ""


def _secret_names() -> tuple[str, ...]:
    return ("GITLAB_TOKEN", *MODEL_KEYS)
