"""The text of a project's first ``nightshift.yaml``, with a reason for each line."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gitlab_nightshift.onboarding.ci_file import keep_line_ends

DOCS = "docs/configuration.md of gitlab-nightshift"
_NONE_PASSED = (
    "# Without one, nights change only comments and documents. How to give each build tool its",
    "# dependencies without a network: docs/recipes.md of gitlab-nightshift",
)
DASHBOARD = "One issue shows open merge requests, past nights, rejected ideas, with boxes to tick."
# As _write_commands writes them if no command passed.
_DISABLED_COMMANDS = re.compile(r"(?m)^# verify_commands:.*\n(?:#   - .*\n)*")
LACKS = "cannot run here: "
"""The beginning of ``why`` for a command whose program or dependency is missing."""


@dataclass(frozen=True)
class TriedCommand:
    """A test command and its result in the sandbox. ``seconds`` is None if it was not run; ``why``
    is why it proves nothing, "" if it passed or was not tried yet; ``output`` has the last lines of
    a failed one."""

    command: str
    seconds: float | None = None
    why: str = ""
    output: tuple[str, ...] = ()

    @property
    def result(self) -> str:
        """The result in words."""
        if self.why or self.seconds is None:
            return self.why or "found in the build files; the rehearsal tries it"
        return f"passed in {self.seconds:.0f} s"

    @property
    def lacks_something(self) -> bool:
        """True if it failed because something is not installed here."""
        return self.why.startswith(LACKS)


def write_settings(
    tried: Sequence[TriedCommand],
    reviewer: str,
    agent_env: Sequence[str] = (),
    *,
    dashboard: bool = False,
) -> str:
    """The whole file. Commands that did not pass are commented out; ``log_issue`` is set only with
    ``dashboard``."""
    passed = any(not each.why for each in tried)
    lines = [
        f"# Night shift settings. All of them, with defaults: {DOCS}",
        "",
        "# What proves a change: this program runs these in the sandbox, before and after it.",
        *([] if passed else _NONE_PASSED),
        *_write_commands(tried, passed=passed),
    ]
    if agent_env:
        lines += [
            "",
            "# Variables passed on to agents and these commands: they say where dependencies are.",
        ]
        lines.append(f"agent_env: [{', '.join(agent_env)}]")
    lines += [
        "",
        "# Who reviews: a user name, group:PATH, code_owners or approval_rules.",
    ]
    lines.append(f"reviewer: {reviewer}" if reviewer else "# reviewer: your-user-name")
    lines += ["", f"# {DASHBOARD}", f"{'' if dashboard else '# '}log_issue: auto"]
    return "\n".join(lines) + "\n"


def lacks_commands(text: str) -> bool:
    """True if a file of this form has its test commands commented out."""
    return bool(_DISABLED_COMMANDS.search(text)) and not re.search("(?m)^verify_commands:", text)


def enable_commands(text: str, tried: Sequence[TriedCommand]) -> str:
    """The file with the commands that pass now, and its own line endings; unchanged if none
    passes."""
    if all(each.why for each in tried):
        return text
    lines = "\n".join(_write_commands(tried, passed=True))
    rest = text.replace("\r\n", "\n").replace("\n".join(_NONE_PASSED) + "\n", "")
    return keep_line_ends(text, _DISABLED_COMMANDS.sub(lambda _: f"{lines}\n", rest, count=1))


def _write_commands(tried: Sequence[TriedCommand], *, passed: bool) -> list[str]:
    if not tried:
        return ["# verify_commands: []"]
    lines = [f"{'' if passed else '# '}verify_commands:"]
    for each in tried:
        mark, note = ("# ", each.why) if each.why else ("", each.result)
        lines.append(f"{mark}  - {json.dumps(each.command)} # {note}")
    return lines
