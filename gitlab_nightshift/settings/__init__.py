"""The settings of a run: one frozen record that knows where each value came from.

The record takes long to load: a process that needs one small module of this package does not load
it.
"""

from typing import TYPE_CHECKING

from gitlab_nightshift.lazy_names import load_lazily

if TYPE_CHECKING:
    from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
    from gitlab_nightshift.settings.load import (
        build_settings,
        load_notification_settings,
        load_settings,
    )
    from gitlab_nightshift.settings.model import Settings

__all__ = [
    "FILE_NAME",
    "ConfigFile",
    "Settings",
    "build_settings",
    "load_notification_settings",
    "load_settings",
]
__getattr__ = load_lazily(
    __name__,
    {
        "config_file": "FILE_NAME ConfigFile",
        "load": "build_settings load_notification_settings load_settings",
        "model": "Settings",
    },
)
