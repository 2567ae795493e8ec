"""``nightshift init``: writes a project's first nightshift.yaml, and the include of the template
(``project_init.py``, ``onboarding/project_files.py``)."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift init                            write both files from what it finds here
  nightshift init --dry-run                  show the files instead of writing them
  nightshift init --source tools/gitlab-nightshift
  nightshift init --gitlab --dry-run         show what it would set up in GitLab with GITLAB_TOKEN
  nightshift init --merge-request --model-key ANTHROPIC_API_KEY"""


def register(commands: "options.Commands") -> None:
    summary = "set up this project: find its tests, try them, write what passed"
    parser = options.add_command(
        commands, "init", summary, run, examples=EXAMPLES, checks_import_path=True
    )
    options.add_settings_options(parser)
    parser.add_argument(
        "--source",
        metavar="PROJECT",
        help="the project of this GitLab that holds gitlab-nightshift; default: gitlab-nightshift"
        " in this project's top-level group",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing, show what would be done"
    )
    parser.add_argument(
        "--gitlab",
        action="store_true",
        help="also set up the project in GitLab, with a Maintainer's GITLAB_TOKEN: token,"
        " variables, job token, schedule, labels; whatever exists already is left alone",
    )
    parser.add_argument(
        "--merge-request",
        action="store_true",
        help="as --gitlab, but propose both files in a merge request instead of writing them here;"
        " merging it switches the nights on",
    )
    parser.add_argument(
        "--dashboard",
        action=argparse.BooleanOptionalAction,
        help="keep one issue as a dashboard of the nights (log_issue); default: ask in a terminal",
    )
    parser.add_argument(
        "--model-key",
        metavar="NAME",
        help="store this environment variable in the project, as the model key",
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Set the project up, and print a line for each step."""
    import dataclasses

    from gitlab_nightshift.commands.init_records import InitRequest
    from gitlab_nightshift.commands.project_init import set_up_project

    options.require_linux()
    call = options.build_invocation(args, env)
    # --dry-run of this command is not the setting `dry_run`.
    overrides = {key: value for key, value in call.overrides.items() if key != "dry_run"}
    request = InitRequest(
        source=args.source or "",
        dry_run=args.dry_run,
        gitlab=args.gitlab,
        merge_request=args.merge_request,
        model_key=args.model_key or "",
        dashboard=args.dashboard,
        ask=_ask_yes_no,
    )
    for line in set_up_project(dataclasses.replace(call, overrides=overrides), request):
        print(line, flush=True)
    return 0


def _ask_yes_no(question: str) -> bool:
    """The answer of the person at the terminal; without a terminal, no."""
    import sys

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
