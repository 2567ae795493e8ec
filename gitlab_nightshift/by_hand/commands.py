"""The commands by hand: what they were called with goes in, what is printed comes out."""

import argparse
import re
import sys
from pathlib import Path

from gitlab_nightshift.by_hand import printed
from gitlab_nightshift.by_hand.execute import execute
from gitlab_nightshift.by_hand.propose import Wish, propose
from gitlab_nightshift.by_hand.providers import rows_text, survey
from gitlab_nightshift.errors import Code, NightshiftError, config_error
from gitlab_nightshift.patching.context import CONTEXT_TOKENS
from gitlab_nightshift.session import Call
from gitlab_nightshift.show import settings_of

_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What would steer a terminal: a model wrote the text. For a pipe it stays as it is."""
LARGEST_INPUT = 4_000_000
"""Bytes of a task or of blocks."""


def run(call: Call, args: argparse.Namespace) -> tuple[str, str]:
    """The texts for stdout and stderr. Raises NightshiftError."""
    out, told = _COMMANDS[args.command](call, args)
    return (_STEERING.sub("?", out) if sys.stdout.isatty() else out), told


def _patch(call: Call, args: argparse.Namespace) -> tuple[str, str]:
    task = _input("-", "--task") if args.task == "-" else args.task
    wish = Wish(task, args.model, tuple(args.files), args.context or CONTEXT_TOKENS)
    proposal = propose(call, wish)
    form = "json" if args.json else "diff" if args.diff else "blocks"
    lines = (*proposal.notes, printed.proposal_line(proposal))
    return printed.proposal_text(proposal, form), "".join(f"nightshift: {x}\n" for x in lines)


def _execute(call: Call, args: argparse.Namespace) -> tuple[str, str]:
    text = _input(args.file, args.file)
    edits = execute(call, text, dry_run=args.dry_run, allow_dirty=args.allow_dirty)
    return printed.edits_text(edits, dry_run=args.dry_run, as_json=args.json), ""


def _providers(call: Call, args: argparse.Namespace) -> tuple[str, str]:
    return rows_text(survey(settings_of(call), call.env), as_json=args.json), ""


_COMMANDS = {"patch": _patch, "execute": _execute, "providers": _providers}


def _input(name: str, where: str) -> str:
    """The text of a file, or of stdin for ``-``."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LARGEST_INPUT + 1)
    except OSError as error:
        raise config_error(f"{where}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_INPUT:
        raise NightshiftError(Code.PARSE_ERROR, f"{where}: larger than {LARGEST_INPUT} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NightshiftError(Code.PARSE_ERROR, f"{where}: not UTF-8 text") from None
