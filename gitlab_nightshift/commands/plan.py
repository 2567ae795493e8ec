"""``nightshift plan``: shows what a night would try."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift plan                            what tonight would try, what it leaves out and why
  nightshift plan --prompts --category docs  the prompts as they would be sent"""


def register(commands: "options.Commands") -> None:
    summary = "show what a night would try; writes nightshift/plan.json"
    parser = options.add_command(
        commands, "plan", summary, run, examples=EXAMPLES, checks_import_path=True
    )
    options.add_settings_options(parser)
    parser.add_argument(
        "--prompts", action="store_true", help="show the prompts as they would be sent"
    )
    options.add_category_option(parser)


def run(args: argparse.Namespace, env: Env) -> int:
    """Make the plan; with ``--prompts`` print each bead's prompt."""
    from gitlab_nightshift.run import planning
    from gitlab_nightshift.run.process_inputs import check_addresses
    from gitlab_nightshift.run.session_opening import open_run
    from gitlab_nightshift.sandbox.process_table import JOBS

    with open_run(options.build_invocation(args, env)) as session:
        # Opening the run needs more rights; nothing of the project has been executed yet.
        options.drop_privileges(JOBS, env, session.checkout)
        check_addresses(session, single_job=False)
        plan = planning.plan_for_later_job(session)
        prompts = planning.preview(session, plan) if args.prompts else {}
    for bead, text in prompts.items():
        print(f"\n===== {bead} =====\n{text}")
    return 0
