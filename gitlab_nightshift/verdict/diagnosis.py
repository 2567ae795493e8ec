"""A command that failed because something is missing here is no failing test."""

import re

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.system.process import NOT_FOUND

CANNOT_RUN = 126
_PROGRAM = compile_lazily(
    r"(?:^|: )(?:line \d+: |\d+: )?([\w./+-]+): (?:command )?not found$"
    r"|^make(?:\[\d+\])?: ([\w./+-]+): No such file or directory$"
    r"|^bundler: command not found: (\S+)"
    r"|spawn (\S+) ENOENT",
    re.MULTILINE,
)
_MODULE = compile_lazily(
    r"(?:^|: )No module named ['\"]?([\w.]+)"
    r"|Cannot find (?:module|package) '([^./'][^']*)'"
    r"|cannot load such file -- ([\w/.-]+)"
    r"|no required module provides package (\S+?);?(?:\s|$)"
    r"|Could not find gem '?([\w-]+)"
    r"|no matching package named `([^`]+)`"
    r"|Could not find artifact (\S+)"
    r"|Could not resolve (\S+:\S+:\S+?)\.?$",
    re.MULTILINE,
)
_NETWORK = compile_lazily(
    r"Temporary failure in name resolution|Could not resolve host|getaddrinfo E|EAI_AGAIN"
    r"|dial tcp: lookup|Network is unreachable|UnknownHostException|Failed to establish a new conn"
    r"|in offline mode|No cached version of|failed to download|Could not GET 'http"
    r"|Could not create local repository|NETSDK1004|vendor/autoload\.php"
)


def describe_missing(result: CommandResult, output: str) -> str:
    """What a failed command lacks here, as a sentence; "" where it simply failed.

    ``output`` is the end of what it printed.
    """
    if not result.exit_status:  # passed, or ended by this program
        return ""
    program = result.command.split(maxsplit=1)[0]
    if result.exit_status == NOT_FOUND and result.error:
        return f"{program} {result.error}"
    for pattern, text in _TEXTS.items():
        if found := pattern.search(output):
            return text.format(next(filter(None, (*found.groups(), found[0])))[:100].strip())
    if result.exit_status in (NOT_FOUND, CANNOT_RUN):
        return f"{program} cannot be run here (exit status {result.exit_status})"
    return ""


_TEXTS = {
    _PROGRAM: "the program {} is not installed",
    _MODULE: "the dependency {} is not installed",
    _NETWORK: "something had to be downloaded ({}), and there is no network",
}
