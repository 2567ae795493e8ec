"""Settings come out of JSON as they went in."""

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


def test_they_are_the_same_again() -> None:
    file = ConfigFile("nightshift.yaml", EVERY_SHAPE)
    for made in (load_settings({}), load_settings({"NIGHTSHIFT_DRAFT": "true"}, file)):
        again = decode_record(Settings, encode_record(made))
        assert again == made
        assert again.flatten_values() == made.flatten_values()
        assert [again.find_source(key) for key in made.flatten_values()] == [
            made.find_source(key) for key in made.flatten_values()
        ]
