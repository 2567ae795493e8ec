"""``nightshift demo``: plays a recorded night on this machine."""

import argparse
import os

from gitlab_nightshift.commands import options
from gitlab_nightshift.commands.options import Env

EXAMPLES = """\
examples:
  nightshift demo                            here; leaves nightshift/ with the report
  nightshift demo /tmp/demo"""


def register(commands: "options.Commands") -> None:
    summary = "play a recorded night on this machine: no account, no model"
    parser = options.add_command(commands, "demo", summary, run, examples=EXAMPLES)
    parser.add_argument(
        "folder", nargs="?", default=".", help="where to leave nightshift/; default: here"
    )


def run(args: argparse.Namespace, env: Env) -> int:
    """Play the night, then show the merge request as its reviewer would see it."""
    from pathlib import Path

    from gitlab_nightshift.demo.demo_night import OPENING, open_demo
    from gitlab_nightshift.demo.terminal_view import render_demo
    from gitlab_nightshift.run.supervisor.supervised_run import SupervisorOptions, supervise

    os.environ["no_proxy"] = "127.0.0.1"  # requests would use a proxy even for the loopback address
    with open_demo(Path(args.folder), env) as demo:
        print(OPENING, flush=True)  # before the output of the night's processes
        colour = options.has_colour(env)
        status = supervise(SupervisorOptions(demo.env, demo.checkout, None, {}, colour))
        print(render_demo(demo, colour))
    return status
