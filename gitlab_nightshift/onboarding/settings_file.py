"""The text of a project's first ``nightshift.yaml``, with why each line stands there."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

DOCS = "docs/configuration.md of gitlab-nightshift"
_NONE_PASSED = (
    "# Without one, nights change comments and documents only. How each build tool finds its",
    "# dependencies where there is no network: docs/recipes.md of gitlab-nightshift",
)


@dataclass(frozen=True)
class TriedCommand:
    """A test command as it ended in the sandbox; ``seconds`` of None: it was not run; ``why`` says
    what was wrong, "" where it passed."""

    command: str
    seconds: float | None = None
    why: str = ""


def write_settings(
    tried: Sequence[TriedCommand], reviewer: str, agent_env: Sequence[str] = ()
) -> str:
    """The whole file. Only a command that passed is in force."""
    lines = [f"# Settings of the night shift. Every one, with its default: {DOCS}", ""]
    passed = [each for each in tried if not each.why]
    lines += [
        "# What proves a change: run by the program itself, before and after it, in the sandbox.",
        *([] if passed else _NONE_PASSED),
        *([f"{'' if passed else '# '}verify_commands:"] if tried else ["# verify_commands: []"]),
    ]
    for each in tried:
        mark, note = ("# ", each.why) if each.why else ("", f"passed in {each.seconds:.0f} s")
        lines.append(f"{mark}  - {json.dumps(each.command)} # {note}")
    if agent_env:
        lines += ["", "# Variables that agents and these commands get: where dependencies are."]
        lines.append(f"agent_env: [{', '.join(agent_env)}]")
    lines += [
        "",
        "# Who is asked for a review: a user name, group:PATH, code_owners, approval_rules.",
    ]
    lines.append(f"reviewer: {reviewer}" if reviewer else "# reviewer: your-user-name")
    return "\n".join(lines) + "\n"
