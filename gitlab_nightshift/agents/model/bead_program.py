"""The agents ``model`` and ``patch`` inside the sandbox: a prompt on stdin, JSON lines on stdout.

They have the rights of any agent: a checkout, a scratch folder, and the model gateway.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.model.blocks import MalformedError
from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError
from gitlab_nightshift.agents.model.conversation import ContextTooSmallError
from gitlab_nightshift.agents.model.edits import NotApplicableError
from gitlab_nightshift.agents.model.loop import AgentLoop, LoopLimits
from gitlab_nightshift.agents.model.one_request import OneRequest
from gitlab_nightshift.agents.model.tools import CommandRules, Toolbox
from gitlab_nightshift.agents.model.workspace import Workspace
from gitlab_nightshift.repository.git import Git, GitError, build_isolated_git

HEARTBEAT_S = 5.0
BASE_URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_OWN_VARIABLES = (BASE_URL, KEY)
"""The agent's own: its commands do not get them."""


@dataclass(frozen=True)
class BeadSpec:
    """One bead, as the provider writes it; none of it is secret. ``usd``, ``tokens`` and
    ``seconds`` are what is left of the run, ``hidden`` are files that were taken away, ``rates``
    USD per million tokens in and out."""

    bead: str
    model: str
    checkout: str
    handoff: str
    schema: dict[str, Any] | None
    one_request: bool
    edits: bool
    hidden: list[str]
    allowed: list[str]
    any_command: bool
    answer_tokens: int
    command_s: float
    usd: float | None
    tokens: int | None
    seconds: float | None
    rates: list[float]


def main(spec_file: str, env: Mapping[str, str]) -> int:
    """Do one bead; the exit status is 0 if its answer could be used."""
    spec = BeadSpec(**json.loads(Path(spec_file).read_bytes()))
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    chat = ChatClient(
        env[BASE_URL], env[KEY], spec.model, _Heartbeat().report_progress, _tell_repetition
    )
    git = build_isolated_git(Path(env["HOME"]), env["PATH"])
    workspace = Workspace(Path(spec.checkout), git, (Path(spec.handoff),))
    try:
        _keep_out_of_diffs(git, Path(spec.checkout), spec.hidden)
        if spec.one_request:
            answer = OneRequest(chat, workspace, spec, tell).run(prompt)
        else:
            answer = _build_loop(spec, chat, workspace, env).run(prompt)
    except EndpointError as error:
        return _report_failure("endpoint", str(error), error.status)
    except (MalformedError, NotApplicableError) as error:
        return _report_failure("answer", str(error))
    except (ContextTooSmallError, GitError) as error:
        return _report_failure("context", str(error))
    said = answer if isinstance(answer, str) else ""
    tell({"type": "result", "ok": True, "said": said, "structured": None if said else answer})
    return 0


def _build_loop(
    spec: BeadSpec, chat: ChatClient, workspace: Workspace, env: Mapping[str, str]
) -> AgentLoop:
    own = {name: value for name, value in env.items() if name not in _OWN_VARIABLES}
    rules = CommandRules(tuple(spec.allowed), spec.any_command, own, spec.command_s)
    limits = LoopLimits(
        spec.answer_tokens, spec.usd, spec.tokens, spec.seconds, (spec.rates[0], spec.rates[1])
    )
    return AgentLoop(chat, Toolbox(workspace, rules, spec.edits), limits, spec.schema, tell)


def _keep_out_of_diffs(git: Git, top: Path, hidden: list[str]) -> None:
    """Keep hidden files out of diffs: that of a missing tracked file prints its content."""
    if hidden:
        # git then takes them for unchanged: git-update-index(1), "Skip-worktree bit".
        tracked = git.run("ls-files", "-z", "--", *hidden, cwd=top)
        git.run("update-index", "--skip-worktree", "-z", "--stdin", cwd=top, stdin=tracked)


def tell(event: Mapping[str, Any]) -> None:
    """Report an event."""
    print(json.dumps(event), flush=True)  # noqa: T201 - the agent's output is its way to report


def _report_failure(what: str, error: str, status: int = 0) -> int:
    tell({"type": "result", "ok": False, "what": what, "error": error, "status": status})
    return 1


def _tell_repetition(why: str) -> None:
    tell({"type": "repeated", "why": why})


class _Heartbeat:
    """Reports now and then that an answer is arriving, as silence would end the bead."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def report_progress(self, characters: int) -> None:
        if time.monotonic() - self._last_s >= HEARTBEAT_S:
            self._last_s = time.monotonic()
            tell({"type": "hearing", "characters": characters})
