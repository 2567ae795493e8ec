"""The command line: its parser, its start and its exit statuses. Commands are in ``commands/``.

``env`` is the job's environment as data; this process's own holds a few named variables of it
(``sealed_start.py``).
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from gitlab_nightshift import __version__
from gitlab_nightshift.commands import ADVANCED, COMMANDS
from gitlab_nightshift.commands.options import build_formatter

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from typing import NoReturn

DESCRIPTION = """\
One small, proven merge request a night, or none and the reason why.

A coding agent finds the best small improvement in today's category and makes it, a second one
checks it, and this program opens the merge request. Agents never see the GitLab token."""

EXAMPLES = """\
examples:
  nightshift run                             a night, as the scheduled job runs it
  nightshift run --rehearse                  all of a night that costs no tokens
  nightshift run --dry-run --category docs   everything but the merge request
  nightshift check --base main               red flags in your own change
  nightshift init                            set up this project
  nightshift doctor --boundary               whether a night would start here, in which sandbox
  nightshift demo                            watch a whole night on this machine, no account needed
  nightshift publish nightshift/bundle       resume after a failed publish; costs no model tokens

exit status: 0 also for a night that found nothing; 2 settings, 5 agent or key, 6 deadline,
11 changed checkout, 12 publish, 13 half a night, 130 and 143 signals; see docs/errors.md"""


class ReportingParser(argparse.ArgumentParser):
    """A parser that reports a mistake as its command reports everything."""

    def format_help(self) -> str:
        """The help, with a title above the advanced commands: argparse knows one list of them."""
        text, first = super().format_help(), f"\n    {ADVANCED[0]} "
        # `fleet` has a command of the same name.
        return text if " " in self.prog else text.replace(first, f"\n  advanced:{first}", 1)

    def error(self, message: str) -> "NoReturn":
        """Print one line on stderr and exit with 2; for ``delegate`` print the JSON object on
        stdout, too."""
        _refuse(message)
        super().error(message)


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The command line, with one command alone where ``arguments`` begin with it; ``run`` of what
    is parsed is the function that runs it."""
    parser = ReportingParser(
        prog="nightshift",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=build_formatter,
    )
    parser.add_argument("--version", action="version", version=f"nightshift {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Of one command only its module is imported; help, and a mistyped command, need all.
    named = [name for name in COMMANDS if [name] == [*arguments[:1]]]
    for name in named or COMMANDS:
        importlib.import_module(f"gitlab_nightshift.commands.{name}").register(commands)
    return parser


def main() -> int:
    """Check the command line, then run it by a sealed start (on Linux; elsewhere in this
    process)."""
    # The signals wait until ``run`` handles them, perhaps in the program that replaces this one: a
    # blocked mask and pending signals outlive execve(2).
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    arguments = sys.argv[1:]
    # open(2) returns the lowest free descriptor: if stdin, stdout or stderr is closed, the next
    # file that is opened would be taken for it.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    try:
        agents_in_job = _parse(arguments).agents_in_job
    except OSError as error:  # nobody reads its help, or there is no space for it
        from gitlab_nightshift.wire.exit_status import report_lost_output

        return report_lost_output(error)
    # Not for --help: pathlib and json are a third of it.
    from gitlab_nightshift import sealed_start

    if sys.platform != "linux":
        return run(arguments, os.environ)
    try:
        os.getcwd()  # noqa: PTH109 - light
    except FileNotFoundError:
        text = "the current folder no longer exists: change to another one"
        print(f"nightshift: E_CONFIG: {text}", file=sys.stderr)
        _refuse(text)
        return 2
    start = sealed_start.prepare_start(arguments, os.environ)
    if agents_in_job and (text := sealed_start.describe_open_import_path(os.environ)):
        print(f"nightshift: {text}", file=sys.stderr)
    for text in start.left_out:
        print(f"nightshift: {text}", file=sys.stderr)
    sealed_start.become(start)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed command line. If argparse exits after a text, such as help, that is flushed, so
    that a full disk is noticed."""
    try:
        return build_parser(arguments).parse_args(arguments)
    except SystemExit:
        if sys.stdout:
            sys.stdout.flush()
        raise


def run(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    from gitlab_nightshift.wire.exit_status import run_guarded  # not for the start that is replaced

    args = build_parser(arguments).parse_args(arguments)

    def run_command() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        return int(args.run(args, env))

    return run_guarded(run_command, env)


def _refuse(text: str) -> None:
    """Print the refusal as JSON on stdout if the command is ``delegate``, whose callers read
    nothing else."""
    if sys.argv[1:2] == ["delegate"]:
        from gitlab_nightshift.errors import Code
        from gitlab_nightshift.records.delegation_records import render_refusal

        print(render_refusal(Code.CONFIG, text))
