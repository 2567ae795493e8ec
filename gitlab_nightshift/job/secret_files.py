"""Secrets in the job's variables of type file: the runner writes those below ``<project>.tmp``."""

from collections.abc import Mapping

from gitlab_nightshift.text.secret_texts import (
    LARGEST,
    SHORTEST,
    find_secrets,
    is_secret_name,
    read_plain_file,
    remove_public_parts,
)

LARGEST_WHOLE = 8 * 1024
MOST_VALUES = 100
"""Values of all files together: each costs time at every byte of a log."""
TRIGGER_PAYLOAD = "TRIGGER_PAYLOAD"
"""The body of the call that triggered the pipeline: comments and addresses, no secret."""


def find_file_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Name → path of the variables whose value is a file that the runner wrote for this job."""
    project = env.get("CI_PROJECT_DIR", "").rstrip("/")
    if not project.startswith("/"):
        return {}
    return {name: path for name, path in env.items() if path == f"{project}.tmp/{name}"}


def read_file_secrets(env: Mapping[str, str]) -> list[str]:
    """What is secret in these files."""
    found: dict[str, None] = {}
    for name, path in sorted(find_file_variables(env).items()):
        if name == TRIGGER_PAYLOAD:
            continue
        text = remove_public_parts(_read_content(path))
        if is_secret_name(name) and len(text) <= LARGEST_WHOLE:
            found[text] = None
        found |= dict.fromkeys(find_secrets(text))
    return [each for each in found if len(each) >= SHORTEST][:MOST_VALUES]


def _read_content(path: str) -> str:
    """The text of a small file, "" for another."""
    return (read_plain_file(path, LARGEST) or b"").decode("utf-8", "replace")
