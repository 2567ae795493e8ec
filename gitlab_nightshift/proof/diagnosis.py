"""Tells a command that lacks a program, a dependency or the network from a failing test."""

import re

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.sandbox.process import NOT_FOUND

CANNOT_RUN = 126  # POSIX, sh, "Exit Status": the utility was found, but is not executable
_MISSING = RuleTable(__file__).entries["missing"]


def describe_missing(result: CommandResult, output: str) -> str:
    """What a failed command lacks on this machine, as a sentence; "" if it simply failed.

    ``output`` is the end of its output.
    """
    if not result.exit_status:  # it passed, or this program ended it
        return ""
    program = result.command.split(maxsplit=1)[0]
    if result.exit_status == NOT_FOUND and result.error:
        return f"{program} {result.error}"
    for row in _MISSING:
        if found := re.search("|".join(row["patterns"]), output, re.MULTILINE):
            what = next(filter(None, (*found.groups(), found[0])))
            return str(row["message"]).format(what[:100].strip())
    if result.exit_status in (NOT_FOUND, CANNOT_RUN):
        return f"{program} cannot be run here (exit status {result.exit_status})"
    return ""
