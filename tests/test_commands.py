"""Adding a command takes one file and one line in its list."""

import argparse
import importlib
import re
import shlex
import sys
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from gitlab_nightshift import cli
from gitlab_nightshift.commands import COMMANDS, options


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    print(f"{args.word} for {env['USER']}")
    return 3


def register(commands: "options.Commands") -> None:
    """A whole command."""
    toy = options.add_command(commands, "toy", "say a word", run, examples="examples:\n  toy hello")
    toy.add_argument("word")


def test_a_command_is_one_module_in_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = SimpleNamespace(register=register)
    monkeypatch.setitem(sys.modules, "gitlab_nightshift.commands.toy", toy)
    monkeypatch.setattr(cli, "COMMANDS", (*COMMANDS, "toy"))
    assert cli.run(["toy", "hello"], {"USER": "rita"}) == 3
    assert capsys.readouterr().out == "hello for rita\n"
    assert "toy" in cli.build_parser().format_help()


def test_each_command_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """And each example can be parsed."""
    for name in COMMANDS:
        command = importlib.import_module(f"gitlab_nightshift.commands.{name}")
        lines = command.EXAMPLES.splitlines()
        assert lines[0] == "examples:"
        examples = [line.strip() for line in lines[1:] if line.startswith("  nightshift ")]
        assert examples
        for example in examples:
            words = split_words(example)
            cli.build_parser(words).parse_args(words)
    assert capsys.readouterr().out == ""


def split_words(example: str) -> list[str]:
    """The arguments of an example: without the program, an explanation and a redirection."""
    return shlex.split(re.split(r"  | [|<>] ", example)[0])[1:]


def test_only_the_commands_of_nightshift_itself_have_advanced_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`nightshift fleet plan` has the name of an advanced one."""
    assert cli.build_parser().format_help().count("advanced:") == 1
    with pytest.raises(SystemExit):
        cli.build_parser().parse_args(["fleet", "--help"])
    shown = capsys.readouterr().out
    assert "\n    plan " in shown and "advanced" not in shown
