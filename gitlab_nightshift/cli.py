"""The command line: its parser, its start and its exit statuses. Commands are in ``commands/``.

``env`` is the job's environment, passed as data: after the sealed start (``sealed_start.py``)
``os.environ`` has only a few of its variables.
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

TYPE_CHECKING = False  # not imported from typing, which would take 6 ms
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
    """A parser that reports usage errors of ``delegate`` also as JSON, like its other errors."""

    def format_help(self) -> str:
        """The help, with a title above the advanced commands, which argparse does not support."""
        text = super().format_help()
        if " " in self.prog:  # the help of a command: `fleet` has an own command `plan`
            return text
        first_advanced = f"\n    {ADVANCED[0]} "
        return text.replace(first_advanced, f"\n  advanced:{first_advanced}", 1)

    def error(self, message: str) -> "NoReturn":
        """Print one line on stderr and exit with 2; for ``delegate`` print the JSON object on
        stdout, too."""
        _print_delegation_refusal(message)
        super().error(message)


def build_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser, with only the command that ``arguments`` begin with, or with all commands if it
    is unknown. In the parsed namespace ``run`` is the command's function."""
    parser = ReportingParser(
        prog="nightshift",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=build_formatter,
    )
    parser.add_argument("--version", action="version", version=f"nightshift {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Each command is a module to import; only help and a mistyped command need all of them.
    is_known = bool(arguments) and arguments[0] in COMMANDS
    for name in arguments[:1] if is_known else COMMANDS:
        importlib.import_module(f"gitlab_nightshift.commands.{name}").register(commands)
    return parser


def main() -> int:
    """Check the command line, then run it by a sealed start (on Linux; elsewhere in this
    process)."""
    # Signals stay pending until ``run`` handles them, after the sealed start: the mask and pending
    # signals survive execve(2).
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    arguments = sys.argv[1:]
    # open(2) returns the lowest free descriptor: if stdin, stdout or stderr is closed, the next
    # file that is opened would be taken for it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    try:
        checks_import_path = _parse(arguments).checks_import_path
    except OSError as error:  # the help cannot be printed: a closed pipe, a full disk
        from gitlab_nightshift.wire.exit_status import report_lost_output

        return report_lost_output(error)
    # Imported late: for --help, pathlib and json would take a third of the time.
    from gitlab_nightshift import sealed_start

    if sys.platform != "linux":
        return run(arguments, os.environ)
    try:
        os.getcwd()  # noqa: PTH109 - without pathlib
    except FileNotFoundError:
        text = "the current folder no longer exists: change to another one"
        print(f"nightshift: E_CONFIG: {text}", file=sys.stderr)
        _print_delegation_refusal(text)
        return 2
    start = sealed_start.prepare_start(arguments, os.environ)
    if checks_import_path and (text := sealed_start.describe_open_import_path(os.environ)):
        print(f"nightshift: {text}", file=sys.stderr)
    for text in start.left_out:
        print(f"nightshift: {text}", file=sys.stderr)
    sealed_start.become(start)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Help is flushed before the exit, so that a full disk is noticed."""
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
    from gitlab_nightshift.wire.exit_status import run_guarded  # not needed before the sealed start

    args = build_parser(arguments).parse_args(arguments)

    def run_command() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
        return int(args.run(args, env))

    return run_guarded(run_command, env)


def _print_delegation_refusal(text: str) -> None:
    """Print the refusal as JSON if the command is ``delegate``, whose callers read only stdout."""
    if sys.argv[1:2] == ["delegate"]:
        from gitlab_nightshift.errors import Code
        from gitlab_nightshift.records.delegation_records import render_refusal

        print(render_refusal(Code.CONFIG, text))
