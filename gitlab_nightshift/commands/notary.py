"""``nightshift notary``: runs the commands that prove a change again, on the bundle."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift notary                          the bundle of nightshift/bundle
  nightshift notary --from-job nightshift:work"""


def register(commands: "options.Commands") -> None:
    summary = "run verify_commands once more on a bundle's change; writes nightshift/notary.json"
    parser = options.add_command(
        commands, "notary", summary, run, examples=EXAMPLES, checks_import_path=True
    )
    options.add_settings_options(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("bundle", nargs="?", metavar="BUNDLE", help="default: nightshift/bundle")
    source.add_argument(
        "--from-job",
        metavar="NAME",
        help="the bundle of another job in this pipeline, fetched with CI_JOB_TOKEN",
    )
    parser.add_argument("--plan", metavar="FILE", help="default: nightshift/plan.json")


def run(args: argparse.Namespace, env: Env) -> int:
    """Run the commands of a plan on a bundle's change; the exit status says whether they passed."""
    from gitlab_nightshift.records.notary_records import BundleOrigin
    from gitlab_nightshift.run.supervisor.supervised_run import SupervisorOptions, supervise

    options.require_linux()
    call = options.build_invocation(args, env)
    origin = BundleOrigin(args.bundle, args.from_job)
    return supervise(
        SupervisorOptions(**vars(call), single_stage=True, plan=args.plan, bundle_origin=origin)
    )
