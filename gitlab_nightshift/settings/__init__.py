"""The settings of a run: one frozen record that knows where each value came from."""

from gitlab_nightshift.settings.file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.job import Job, Secrets, read_job, read_secrets, read_trigger
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import NOT_IN_FORCE, Settings, waits_for

__all__ = [
    "FILE_NAME",
    "NOT_IN_FORCE",
    "ConfigFile",
    "Job",
    "Secrets",
    "Settings",
    "load_settings",
    "read_job",
    "read_secrets",
    "read_trigger",
    "waits_for",
]
