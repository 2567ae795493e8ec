"""``nightshift delegate``: one task for another program."""

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
    """Add the command to the command line."""
    parser = options.add_command(
        commands,
        "delegate",
        "do one task for another program: JSON in, JSON out",
        run,
        examples=EXAMPLES,
        agents_in_job=True,
    )
    parser.add_argument("--payload", metavar="FILE", default="-", help="default: stdin")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--status",
        metavar="RUN",
        help="how far a run has got, as JSON; RUN is an id or a folder's name",
    )
    instead.add_argument(
        "--cancel", metavar="RUN", help="end a run as SIGTERM would, and print its result"
    )
    instead.add_argument(
        "--schema", action="store_true", help="print the JSON Schemas of task and result"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Do the task, or report on one; stdout is one JSON object."""
    import json

    from gitlab_nightshift import api
    from gitlab_nightshift.errors import Interruption, NightshiftError
    from gitlab_nightshift.records.delegation_records import build_refused_result

    if args.schema:
        print(json.dumps(api.build_schemas(), indent=2))
        return 0
    try:
        if (run_name := args.cancel if args.status is None else args.status) is not None:
            cancel = args.cancel is not None
            print(json.dumps(api.show_delegation(run_name, env, cancel=cancel)))
            return 0
        result = api.delegate_file(args.payload, sys.stdin.buffer, env, sys.stderr)
    except NightshiftError as error:
        # Programs read stdout, people stderr: both learn of it.
        result = build_refused_result(error.code, error.message)
        print(f"nightshift: {error.code}: {error.message}", file=sys.stderr)
    except Interruption as stop:  # before anything was started
        result = build_refused_result(stop.code, "stopped by a signal; nothing was started")
    print(json.dumps(api.as_json(result)))
    return api.get_exit_status(result)
