"""What the command line looks like: its commands, options and help. Nothing is run here."""

import argparse

from gitlab_nightshift import __version__

DESCRIPTION = """\
One small, proven merge request a night, or none, with the reason.

A coding agent looks for the best small improvement of today's category, makes it, another one
checks it, and this program opens the merge request. The agent never has the GitLab token."""

EXAMPLES = """\
examples:
  nightshift demo                            see a whole night on this machine, no account needed
  nightshift config show                     every setting and where its value came from
  nightshift plan --prompts                  what a night would try, and the prompts it would send
  nightshift run --dry-run --category docs   everything but the merge request
  nightshift run                             a night, as the scheduled job does it
  nightshift check --base main               the red flags of your own change
  nightshift providers                       which agents are here, and what each can do
  nightshift doctor --boundary               would a night start here, and in which sandbox
  nightshift publish nightshift/bundle       go on after a failed publish; no token of a model spent

exit status: 0 also for a quiet night; 2 settings, 5 agent or key, 6 deadline, 11 changed checkout,
12 publish, 130 and 143 signals; all of them in docs/errors.md"""

PATCH = """\
examples:
  nightshift patch --task 'Name the percentage in total()' src/shop.py > change.txt
  nightshift patch --task - --diff < task.txt
  nightshift patch --task 'Mend the typo in the README' | nightshift execute

The model is models.implement of the settings at model_endpoint, or OPENAI_API_KEY's own. Only files
of the checkout are read, none is changed. exit status: 5 no model, 7 budget, 9 its blocks do not
fit, 10 it gives no blocks"""

EXECUTE = """\
examples:
  nightshift execute change.txt
  nightshift execute --dry-run --json < change.txt

Each SEARCH has to stand exactly once in its file, or no file is changed at all. exit status: 9 a
block does not fit, 10 no blocks, 11 a file has changes that are not committed"""


def parser() -> argparse.ArgumentParser:
    """The whole command line; ``command`` of its result is the name of what is asked for."""
    raw = argparse.RawDescriptionHelpFormatter
    front = argparse.ArgumentParser(
        prog="nightshift", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw
    )
    front.add_argument("--version", action="version", version=f"nightshift {__version__}")
    commands = front.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(command=name)
        return made

    plan = _settable(add("plan", "what a night would try; writes nightshift/plan.json"))
    plan.add_argument("--prompts", action="store_true", help="show the prompts as they are sent")
    work = _settable(add("work", "run the agents; writes nightshift/bundle"))
    work.add_argument("--plan", metavar="FILE", help="default: nightshift/plan.json")
    publish = _settable(add("publish", "open the merge request of a bundle"))
    source = publish.add_mutually_exclusive_group()
    source.add_argument("bundle", nargs="?", metavar="BUNDLE", help="default: nightshift/bundle")
    source.add_argument(
        "--from-job", metavar="NAME", help="the bundle of another job of this pipeline"
    )
    publish.add_argument(
        "--approved", action="store_true", help="in a manual job: who started it approves"
    )
    run = _settable(add("run", "plan, work and publish in one job"))
    run.add_argument("--dry-run", action="store_true", help="stop before publish")
    for each in (plan, run):
        each.add_argument("--category", metavar="NAME", help="instead of today's")
    config = commands.add_parser("config", help="show the settings, or their schema")
    shown = config.add_subparsers(metavar="show|schema", required=True)
    show = _settable(shown.add_parser("show", help="each value with where it came from"))
    show.set_defaults(command="config show")
    schema = shown.add_parser("schema", help="the JSON Schema of nightshift.yaml, for editors")
    schema.set_defaults(command="config schema")
    doctor = _settable(add("doctor", "would a night start here: tried, not guessed"))
    doctor.add_argument(
        "--boundary",
        action="store_true",
        help="the sandbox that a night with these settings would have, proven; 0 only where one"
        " would start",
    )
    doctor.add_argument("--verbose", action="store_true", help="with the evidence of each row")
    _checkable(add("check", "judge any change by the red flags: no night, no agent"))
    _asking(add("patch", "ask a model for a change as SEARCH/REPLACE blocks; nothing is changed"))
    _applying(add("execute", "apply SEARCH/REPLACE blocks, exactly or not at all"))
    providers = _settable(add("providers", "which agents are here, and what each can do"))
    providers.add_argument("--json", action="store_true", help="the same as JSON")
    delegate = add("delegate", "do one task for another program: JSON in, one JSON object out")
    delegate.add_argument("--payload", metavar="FILE", default="-", help="default: stdin")
    delegate.add_argument("--schema", action="store_true", help="JSON Schemas of both, and end")
    _chatting(commands.add_parser("chat", help="take tasks from a chat; a service that stays"))
    demo = add("demo", "a whole night on this machine: no account, no model")
    demo.add_argument("folder", nargs="?", default=".", help="where nightshift/ is left")
    return front


def _checkable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("commit", nargs="?", metavar="COMMIT", help="default: the working tree")
    parser.add_argument(
        "--base",
        metavar="REV",
        help="what it is held against; default: the merge request's base in its pipeline, the"
        " commit's first parent, HEAD for a working tree with changes",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="run the tests of the commit that is checked out, too: in the sandbox of a night",
    )
    parser.add_argument("--staged", action="store_true", help="what the next commit would hold")
    parser.add_argument("--category", metavar="NAME", help="judge by a night's category")
    parser.add_argument(
        "--selected", nargs="+", action="extend", metavar="FILE", help="files that may change"
    )
    parser.add_argument(
        "--recent",
        type=int,
        default=0,
        metavar="N",
        help="leave alone the files of the last N commits of the base",
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    parser.add_argument("-C", dest="folder", default=".", metavar="PATH", help="the checkout")


def _asking(parser: argparse.ArgumentParser) -> None:
    _settable(parser)
    parser.epilog, parser.formatter_class = PATCH, argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="*", metavar="FILE", help="shown to the model whole")
    parser.add_argument("--task", metavar="TEXT", help="what is to be done; - reads it from stdin")
    parser.add_argument("--model", metavar="NAME", help="default: models.implement")
    parser.add_argument(
        "--context",
        type=int,
        choices=range(1000, 1_000_001),
        metavar="TOKENS",
        help="of the repository, at most; default: 24000",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--diff", action="store_true", help="a unified diff instead of blocks")
    form.add_argument("--json", action="store_true", help="blocks, files, model and cost as JSON")


def _applying(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(config=None, set=None)  # no setting is read
    parser.epilog, parser.formatter_class = EXECUTE, argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: stdin")
    parser.add_argument("--dry-run", action="store_true", help="say what would change")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="also files with changes not committed"
    )
    parser.add_argument("--json", action="store_true", help="what has changed as JSON")


def _chatting(parser: argparse.ArgumentParser) -> None:
    chats = parser.add_subparsers(metavar="discord", required=True)
    text = "serve Discord's interactions endpoint for /coder; docs/chat-discord.md"
    discord = chats.add_parser("discord", help=text, description=f"{text[0].upper()}{text[1:]}.")
    discord.set_defaults(command="chat discord")
    discord.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help="default: 127.0.0.1:8080"
    )
    discord.add_argument(
        "--register", action="store_true", help="register /coder in the server, and end"
    )


def _settable(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--config", metavar="FILE", help="default: nightshift.yaml")
    parser.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="a setting, as models.verify=NAME"
    )
    return parser
