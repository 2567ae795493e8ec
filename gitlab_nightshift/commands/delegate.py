"""``nightshift delegate``: does one task for another program."""

import argparse
import sys

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift delegate < task.json > result.json
  nightshift delegate --payload task.json
  nightshift delegate --status 4711          how far a run of this checkout has got, by its id
  nightshift delegate --cancel 4711          end it, clean up, and print its result
  nightshift delegate --schema               the format of task and result"""


def register(commands: "options.Commands") -> None:
    parser = options.add_command(
        commands,
        "delegate",
        "do one task for another program: JSON in, JSON out",
        run,
        examples=EXAMPLES,
        checks_import_path=True,
    )
    parser.add_argument("--payload", metavar="FILE", default="-", help="default: stdin")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--status",
        metavar="RUN",
        help="how far a run has got, as JSON; RUN is an id or a folder's name",
    )
    actions.add_argument(
        "--cancel", metavar="RUN", help="end a run as SIGTERM would, and print its result"
    )
    actions.add_argument(
        "--schema", action="store_true", help="print the JSON Schemas of task and result"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Do the task, or report on another run; stdout is one JSON object."""
    import json

    from gitlab_nightshift import api
    from gitlab_nightshift.errors import Interruption, NightshiftError
    from gitlab_nightshift.records.delegation_records import build_refused_result

    if args.schema:
        print(json.dumps(api.build_schemas(), indent=2))
        return 0
    try:
        if args.status is not None:
            print(json.dumps(api.show_delegation(args.status, env, cancel=False)))
            return 0
        if args.cancel is not None:
            print(json.dumps(api.show_delegation(args.cancel, env, cancel=True)))
            return 0
        result = api.delegate_file(args.payload, sys.stdin.buffer, env, sys.stderr)
    except NightshiftError as error:
        # Programs read stdout, people read stderr.
        result = build_refused_result(error.code, error.message)
        print(f"nightshift: {error.code}: {error.message}", file=sys.stderr)
    except Interruption as signal:  # before anything was started
        result = build_refused_result(signal.code, "stopped by a signal; nothing was started")
    print(json.dumps(api.as_json(result)))
    return api.exit_status(result)
