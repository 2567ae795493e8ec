"""``nightshift work``: the work stage alone, in a job of its own."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift work                            the night of nightshift/plan.json
  nightshift work --plan other/plan.json"""


def register(commands: "options.Commands") -> None:
    summary = "run the agents; writes nightshift/bundle"
    parser = options.add_command(
        commands, "work", summary, run, examples=EXAMPLES, checks_import_path=True
    )
    options.add_settings_options(parser)
    parser.add_argument("--plan", metavar="FILE", help="default: nightshift/plan.json")


def run(args: argparse.Namespace, env: Env) -> int:
    """Run the agents of a plan."""
    from gitlab_nightshift.run.supervisor.supervised_run import SupervisorOptions, supervise

    options.require_linux()
    call = options.build_invocation(args, env)
    return supervise(SupervisorOptions(**vars(call), single_stage=True, plan=args.plan))
