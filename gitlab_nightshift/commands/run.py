"""``nightshift run``: a whole night in one job."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift run                             a night, as the scheduled job runs it
  nightshift run --rehearse                  everything that costs no tokens, with a verdict
  nightshift run --dry-run --category docs   everything but the merge request
  nightshift run --set max_budget_usd=2"""


def register(commands: "options.Commands") -> None:
    parser = options.add_command(
        commands,
        "run",
        "a night in one job: plan, work and publish",
        run,
        examples=EXAMPLES,
        checks_import_path=True,
    )
    options.add_settings_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="stop before publish")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="check that this job is ready for a night; costs no tokens",
    )
    options.add_category_option(parser)


def run(args: argparse.Namespace, env: Env) -> int:
    """Run a night; the exit status is its outcome's."""
    from gitlab_nightshift.run.supervisor.supervised_run import SupervisorOptions, supervise

    options.require_linux()
    return supervise(SupervisorOptions(**vars(options.build_invocation(args, env))))
