"""Names of commands that a shell has not found, in whatever an agent's commands print."""

import pytest

from gitlab_nightshift.agents.missing_commands import MOST, MissingCommands


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("Exit code 127\n/bin/bash: line 1: python3: command not found", ("python3",)),
        ("sh: 1: python3: not found\nsh: 2: g++: not found\r\nsh: 3: python3: not found", None),
        ("zsh: command not found: sbt", ("sbt",)),
        ("bash: sbt: command not found", ("sbt",)),
        ("x" * 10**6 + "\nbash: sbt: command not found", ("sbt",)),
        ("the page was not found\nconfig: key not found in x\nerror: a b: not found", ()),
        ("curl: (22) The requested URL returned error: 404 not found", ()),
        ([{"type": "text"}], ()),
        (None, ()),
    ],
)
def test_names(output: object, names: tuple[str, ...] | None) -> None:
    missing = MissingCommands()
    missing.read(output)
    assert missing.names == (("python3", "g++") if names is None else names)


def test_a_flood_is_bounded() -> None:
    missing = MissingCommands()
    missing.read("".join(f"sh: 1: p{number}: not found\n" for number in range(1000)))
    assert len(missing.names) == MOST
