"""``nightshift check``: the red flags of any change."""

import argparse
import sys

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from gitlab_nightshift.commands.change_check import CheckRequest, Judgement
    from gitlab_nightshift.records.events import Event

MOST_RECENT = 1_000_000
EXAMPLES = """\
examples:
  nightshift check                           what the working tree changes
  nightshift check --base main               your branch against main
  nightshift check --format sarif=found.sarif
  nightshift check --run HEAD                the last commit, and what its tests show when run

exit status: 0 no failing finding, 8 one or more, 2 wrong arguments or settings,
13 --run could run nothing"""


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "check any change for red flags, without a night or an agent"
    parser = options.add_command(commands, "check", text, run, examples=EXAMPLES)
    _add_change(parser)
    _add_rules(parser)
    _add_output(parser)
    parser.add_argument("-C", dest="folder", default=".", metavar="PATH", help="the checkout")


def _add_change(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the change."""
    parser.add_argument("commit", nargs="?", metavar="COMMIT", help="default: the working tree")
    parser.add_argument(
        "--base",
        metavar="REV",
        help="compare with this; default: the merge request's base in its pipeline, the"
        " commit's first parent, or HEAD for a working tree with changes",
    )
    running = "also run the tests of the checked-out commit, in a night's sandbox"
    parser.add_argument("--run", dest="run_tests", action="store_true", help=running)
    staged = "check what the next commit would contain"
    parser.add_argument("--staged", action="store_true", help=staged)


def _add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the options for rules besides those of the settings."""
    parser.add_argument("--category", metavar="NAME", help="apply the rules of a night's category")
    parser.add_argument(
        "--selected", nargs="+", action="extend", metavar="FILE", help="files that may change"
    )
    recent = "files of the base's last N commits may not change"
    parser.add_argument("--recent", type=int, default=0, metavar="N", help=recent)


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is printed."""
    why = "why a flag matters, its levels, what to do; all: list every flag"
    parser.add_argument("--explain", metavar="FLAG", help=why)
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    parser.add_argument(
        "--format",
        dest="formats",
        action="append",
        default=[],
        metavar="NAME[=FILE]",
        help="text, json, codequality (GitLab) or sarif; with FILE, written there as well",
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Judge a change; print the findings."""
    from pathlib import Path

    from gitlab_nightshift.commands.change_check import CheckRequest, check
    from gitlab_nightshift.commands.check_formats import parse_formats, write_formats
    from gitlab_nightshift.errors import Code, build_config_error
    from gitlab_nightshift.sandbox.process_table import CHECK

    if args.explain:
        from gitlab_nightshift.commands.check_formats import explain

        print(explain(args.explain))
        return 0
    if not 0 <= args.recent <= MOST_RECENT:
        raise build_config_error(
            f"--recent {args.recent}: expected a number from 0 to {MOST_RECENT}"
        )
    formats = parse_formats([*args.formats, *(["json"] if args.json else [])])
    request = CheckRequest(
        folder=Path.cwd() / args.folder,
        env=env,
        commit=args.commit,
        base=args.base,
        staged=args.staged,
        category=args.category or "",
        selected=tuple(args.selected or ()),
        recent=args.recent,
    )
    if args.run_tests:
        judgement = _judge_by_running(request)
    else:
        folders = [(Path.cwd() / file).parent for file in formats.values() if file]
        # Before any byte of the change is read: parsers read what an agent wrote.
        options.drop_privileges(CHECK, env, output=folders)
        judgement = check(request)
    print(write_formats(judgement, formats, Path.cwd(), options.has_colour(env)))
    if judgement.failed:
        return Code.TEST_FAILED.exit_status
    return Code.INCOMPLETE.exit_status if judgement.incomplete else 0


def _judge_by_running(request: "CheckRequest") -> "Judgement":
    from gitlab_nightshift.commands.check_commit import check_and_run

    options.require_linux()
    return check_and_run(request, _print_progress)


def _print_progress(event: "Event") -> None:
    """Report slow steps on stderr; stdout is for the result."""
    from gitlab_nightshift.records.events import StepEnded, StepStarted

    if isinstance(event, StepStarted):
        print(event.title, file=sys.stderr)
    elif isinstance(event, StepEnded):
        print(f"  {event.text}", file=sys.stderr)
