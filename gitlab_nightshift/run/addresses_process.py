"""The process that finds whom to notify of a run without valid settings, or whose plan died.

It gets no secret but the notification addresses in ``NIGHTSHIFT_*`` variables.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.run.session_opening import read_config_file
from gitlab_nightshift.run_folder import Invocation, find_checkout_top
from gitlab_nightshift.sandbox.supervised_process import serve_stage
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_notification_settings
from gitlab_nightshift.stages.report.result_texts import pack_notify_request
from gitlab_nightshift.system.environment import build_search_path


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_find_addresses)


def _find_addresses(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The notification settings as ``notify_process`` needs them, {} if nobody is to be notified.
    If the config file is invalid, only the variables count."""
    folder, config = Path(inputs["folder"]), inputs["config"]
    call = Invocation(inputs["env"], folder, config, inputs["overrides"], colour=False)
    config_file = None
    with contextlib.suppress(NightshiftError):
        config_file = _read_config(call, Path(inputs["private"]))
    for file in (config_file, None):
        with contextlib.suppress(NightshiftError):
            return pack_notify_request(load_notification_settings(call.env, file, call.overrides))
    return {}


def _read_config(call: Invocation, private: Path) -> ConfigFile | None:
    checkout = find_checkout_top(call.folder)
    git = build_isolated_git(private / "home", build_search_path(call.env, checkout))
    return read_config_file(call, checkout, git)[0]
