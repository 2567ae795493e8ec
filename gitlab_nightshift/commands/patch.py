"""``nightshift patch``: a change asked of a plain model, as blocks."""

import argparse

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

LEAST_CONTEXT, MOST_CONTEXT = 1000, 1_000_000
EXAMPLES = """\
examples:
  nightshift patch --task 'Name the percentage in total()' src/shop.py > change.txt
  nightshift patch --task - --diff < task.txt
  nightshift patch --task 'Mend the typo in the README' | nightshift execute

The model is models.implement at model_endpoint, or OpenAI's with OPENAI_API_KEY. Only files of the
checkout are read, and none is changed. exit status: 5 no model, 7 budget, 9 its blocks do not fit,
10 it gives no blocks"""


def register(commands: "options.Commands") -> None:
    """Add the command to the command line."""
    text = "ask a model for a change as SEARCH/REPLACE blocks; changes no file"
    parser = options.add_command(commands, "patch", text, run, examples=EXAMPLES)
    options.add_settings_options(parser)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a file the model gets to see in full"
    )
    parser.add_argument("--task", metavar="TEXT", help="what to do; - reads it from stdin")
    parser.add_argument("--model", metavar="NAME", help="default: models.implement")
    parser.add_argument(
        "--context",
        type=_parse_context,
        metavar="TOKENS",
        help=f"most tokens of the repository to send, {LEAST_CONTEXT} to {MOST_CONTEXT};"
        " default: 24000",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--diff", action="store_true", help="a unified diff instead of blocks")
    form.add_argument("--json", action="store_true", help="blocks, files, model and cost as JSON")


def _parse_context(text: str) -> int:
    if not text.isdecimal() or not LEAST_CONTEXT <= int(text[:10]) <= MOST_CONTEXT:
        what = f"expected tokens, {LEAST_CONTEXT} to {MOST_CONTEXT}, not {text[:40]!r}"
        raise argparse.ArgumentTypeError(what)
    return int(text)


def run(args: argparse.Namespace, env: Env) -> int:
    """Print the proposal; what was used and found goes to stderr."""
    from gitlab_nightshift.commands import printing
    from gitlab_nightshift.commands.propose_patch import PatchRequest, propose
    from gitlab_nightshift.patching.model_context import CONTEXT_TOKENS

    task = options.read_input("-", "--task") if args.task == "-" else args.task
    request = PatchRequest(task, args.model, tuple(args.files), args.context or CONTEXT_TOKENS)
    proposal = propose(options.build_invocation(args, env), request, printing.write_note)
    printing.write_note(printing.format_proposal_line(proposal))
    form = "json" if args.json else "diff" if args.diff else "blocks"
    printing.write_result(printing.format_proposal(proposal, form))
    return 0
