"""Settings are the same after a round trip through JSON."""

from gitlab_nightshift.records.codec import decode_record, encode_record
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings

EVERY_SHAPE = """
quiet_dates: [2026-12-24]
categories: {licences: Look at the licences.}
category_schedule: {sat: licences}
models: {verify: some-model}
prices:
  some-model: {input: 1, output: 2, long: {above: 200000, input: 2, output: 4}}
prompts: {mr: own/mr.md}
labels: [night]
bead_timeout: 5m
max_output: 1GB
accept_partial: [files]
policy:
  gates: {write: require_approval}
  test_commands: {unit: {command: [make, test], args: [-q]}}
  flags: {test-skipped: off}
  egress_hosts: [repo.example]
log_issue: 7
"""


def test_settings_survive_json() -> None:
    file = ConfigFile("nightshift.yaml", EVERY_SHAPE)
    for settings in (load_settings({}), load_settings({"NIGHTSHIFT_DRAFT": "true"}, file)):
        decoded = decode_record(Settings, encode_record(settings))
        assert decoded == settings
        values = settings.flatten_values()
        assert decoded.flatten_values() == values
        assert all(decoded.find_source(key) == settings.find_source(key) for key in values)
