"""``nightshift doctor``: checks whether a night would start here."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

TYPE_CHECKING = False  # instead of typing's, whose import takes 6 ms
if TYPE_CHECKING:
    from gitlab_nightshift.run_folder import Invocation

EXAMPLES = """\
examples:
  nightshift doctor                          GitLab, the checkout, the agent, its model, the sandbox
  nightshift doctor --json                   the same as JSON
  nightshift doctor --boundary               the sandbox only, and what it guarantees
  nightshift doctor --boundary --verbose --set isolation=landlock"""


def register(commands: "options.Commands") -> None:
    summary = "check, by trying, whether a night would start here"
    parser = options.add_command(
        commands, "doctor", summary, run, examples=EXAMPLES, checks_import_path=True
    )
    options.add_settings_options(parser)
    parser.add_argument(
        "--boundary",
        action="store_true",
        help="prove the sandbox that a night with these settings would get; exits 0 only if a"
        " night would start",
    )
    parser.add_argument("--verbose", action="store_true", help="show the evidence for each row")
    parser.add_argument("--json", action="store_true", help="rows and verdict as JSON")


def run(args: argparse.Namespace, env: Env) -> int:
    """Check everything, or the sandbox; the exit status is 0 if a night would start, else the
    night's."""
    from gitlab_nightshift.commands.doctor_boundary import examine, format_examination

    options.require_linux()
    call = options.build_invocation(args, env)
    # GitLab's job log shows ANSI colours although it is no terminal.
    colour = options.has_colour(env) or (env.get("GITLAB_CI") == "true" and not env.get("NO_COLOR"))
    if args.boundary:
        examination = examine(call)
        print(format_examination(examination, verbose=args.verbose, colour=colour))
        return examination.exit_status
    return _print_rows(call, as_json=args.json, colour=colour)


def _print_rows(call: "Invocation", *, as_json: bool, colour: bool) -> int:
    from gitlab_nightshift.commands.doctor_rows import (
        describe_outcome,
        examine_night,
        find_exit_status,
        format_json,
        format_row,
    )

    rows = []
    for row in examine_night(call):
        rows.append(row)
        if not as_json:
            print(format_row(row, colour=colour), flush=True)
    print(format_json(rows) if as_json else describe_outcome(rows))
    return find_exit_status(rows)
