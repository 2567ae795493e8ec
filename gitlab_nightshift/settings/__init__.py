"""The settings of a run: one frozen record that knows where each value came from.

The record takes long to load: a process that needs one small module of this package does not load
it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
    from gitlab_nightshift.settings.load import load_notification_settings, load_settings
    from gitlab_nightshift.settings.model import Settings

__all__ = [
    "FILE_NAME",
    "ConfigFile",
    "Settings",
    "load_notification_settings",
    "load_settings",
]
_MODULES = {
    "FILE_NAME": "config_file",
    "ConfigFile": "config_file",
    "load_notification_settings": "load",
    "load_settings": "load",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    made = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'model')}"), name)
    globals()[name] = made
    return made
