"""``nightshift execute``: applies SEARCH/REPLACE blocks to the checkout."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift execute change.txt
  nightshift execute --dry-run --json < change.txt

Each SEARCH must occur exactly once in its file, as whole lines, or no file is changed at all. An
empty one makes a new file; <<<<<<< DELETE and >>>>>>> DELETE delete one. Paths start at the top of
the checkout. If a text contains a line like =======, make all such marks of its block longer.

exit status: 9 a block does not fit, 10 no blocks, 11 a file has uncommitted changes"""


def register(commands: "options.Commands") -> None:
    summary = "apply SEARCH/REPLACE blocks, all or none"
    parser = options.add_command(commands, "execute", summary, run, examples=EXAMPLES)
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: stdin")
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="also change files with uncommitted changes"
    )
    parser.add_argument("--json", action="store_true", help="print what changed as JSON")


def run(args: argparse.Namespace, env: Env) -> int:
    """Apply the blocks, and print which files changed, or would."""
    from gitlab_nightshift.commands.block_edits import execute, format_edits

    text = options.read_input(args.file, args.file)
    call = options.build_invocation(args, env)
    edits = execute(call, text, dry_run=args.dry_run, allow_dirty=args.allow_dirty)
    options.write_result(format_edits(edits, dry_run=args.dry_run, as_json=args.json))
    return 0
