"""What an agent ran, as the log and the bundle name it."""

import pytest

from gitlab_nightshift.records.tool_calls import unwrap_command


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["bash", "-lc", "make test"], "make test"),
        ("/bin/sh -c 'make test'", "make test"),
        ("/usr/bin/zsh -lc ls", "ls"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        (["grep", "-c", "a word"], "grep -c 'a word'"),
        ("sh -x -c ls", "sh -x -c ls"),
        ("sh -c 'open", "sh -c 'open"),
    ],
)
def test_only_a_shell_around_a_command_is_left_out(given: object, told: str) -> None:
    assert unwrap_command(given) == told
