"""``nightshift patch``: asks a model for a change, as SEARCH/REPLACE blocks."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift patch --task 'Name the percentage in total()' src/shop.py > change.txt
  nightshift patch --task - --diff < task.txt
  nightshift patch --task 'Mend the typo in the README' | nightshift execute

The model is models.implement at model_endpoint, or OpenAI's with OPENAI_API_KEY. It reads
and searches the checkout by tools; no file is changed, no command run. exit status: 5 no model,
7 budget, 9 a change outside `paths`, 10 its answers cannot be used"""


def register(commands: "options.Commands") -> None:
    summary = "ask a model for a change as SEARCH/REPLACE blocks; changes no file"
    parser = options.add_command(commands, "patch", summary, run, examples=EXAMPLES)
    options.add_settings_options(parser)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a file the model is told to begin with"
    )
    parser.add_argument("--task", metavar="TEXT", help="what to do; - reads it from stdin")
    parser.add_argument("--model", metavar="NAME", help="default: models.implement")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--diff", action="store_true", help="a unified diff instead of blocks")
    form.add_argument("--json", action="store_true", help="blocks, files, model and cost as JSON")


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the proposal to stdout, the steps and the cost to stderr."""
    from gitlab_nightshift.commands.block_edits import (
        PatchRequest,
        format_proposal,
        propose,
        summarize_proposal,
    )

    task = options.read_input("-", "--task") if args.task == "-" else args.task
    request = PatchRequest(task, args.model, tuple(args.files))
    proposal = propose(options.build_invocation(args, env), request, options.write_note)
    options.write_note(summarize_proposal(proposal))
    output_format = "diff" if args.diff else "json" if args.json else "blocks"
    options.write_result(format_proposal(proposal, output_format))
    return 0
