"""The agents ``model`` and ``patch`` inside the sandbox: a prompt on stdin, JSON lines on stdout.

They have the rights of any agent: a checkout, a scratch folder, and the model gateway. ``model``
works in a loop (``loop.py``). ``patch`` does a bead in one request: the model is shown the files
that the analysis selected, or, for the analysis itself, the first files of the repository, and
answers with a JSON object or with blocks.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.agents.model.answers import (
    MalformedError,
    find_no_change_reason,
    parse_blocks,
    parse_json_answer,
)
from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError, Message
from gitlab_nightshift.agents.model.checkout_files import OutsideError, Workspace
from gitlab_nightshift.agents.model.edits import NotApplicableError, UnreadableFileError, plan_edits
from gitlab_nightshift.agents.model.loop import (
    BYTES_PER_TOKEN,
    LEAST_ANSWER,
    AgentLoop,
    ContextTooSmallError,
    EmitEvent,
    LoopLimits,
    estimate_tokens,
)
from gitlab_nightshift.agents.model.texts import (
    NO_BLOCKS,
    build_answer_format,
    render_complaint,
    render_one_request_text,
    render_shown,
)
from gitlab_nightshift.agents.model.tools import CommandRules, Toolbox
from gitlab_nightshift.repository.git import (
    PLAIN_DIFF,
    Git,
    GitError,
    build_isolated_git,
    read_commit_messages,
    split_names,
)


@dataclass(frozen=True)
class BeadSpec:
    """A bead's task, as ``plain_model.py`` writes it; none of it is secret. ``usd``, ``tokens`` and
    ``seconds`` are what is left of the run, None for no limit; ``edits``: the bead may change
    files; those in ``hidden`` were taken away; ``rates`` are USD per million tokens of input and of
    output."""

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


# --- a bead in one request ------------------------------------------------------------------------

SHOWN_TOKENS, LEAST_TOKENS = 24_000, 1_000
"""Tokens of the repository to show at first, and at least."""
LARGEST_TEXT, MOST_COMMIT_MESSAGES = 60_000, 15
"""Characters of a text beside the files, and commit messages that are shown."""


class OneRequest:
    """A bead in one request: shows the model what it needs, and applies its answer."""

    def __init__(
        self, chat: ChatClient, workspace: Workspace, spec: BeadSpec, emit: EmitEvent
    ) -> None:
        self._chat, self._workspace, self._spec, self._emit = chat, workspace, spec, emit
        self._answer_tokens, self._shown_tokens = spec.answer_tokens, SHOWN_TOKENS

    def run(self, prompt: str) -> Any:
        """The bead's structured answer, or for Implement a sentence: its change is in the checkout.
        An answer that cannot be used is sent back once.

        Raises MalformedError, NotApplicableError, EndpointError, ContextTooSmallError, GitError.
        """
        messages = self._build_messages(prompt, self._chat.read_model().context)
        text = self._ask(prompt, messages)
        try:
            return self._apply_answer(text)
        except (MalformedError, NotApplicableError) as error:
            self._emit({"type": "refused", "problem": str(error)})
            complaint = {"role": "user", "content": render_complaint(str(error))}
            answer = {"role": "assistant", "content": text}
            return self._apply_answer(self._ask(prompt, [*messages, answer, complaint]))

    def _ask(self, prompt: str, messages: list[Message]) -> str:
        """The text of an answer. A request that is too long is shortened and sent again."""
        form = build_answer_format(self._spec.bead, self._spec.schema)
        while True:
            try:
                return self._chat.ask(messages, self._answer_tokens, response_format=form).text
            except EndpointError as error:
                if not error.too_long or self._shown_tokens <= LEAST_TOKENS:
                    raise
                # Tokens are only estimated, so even a context that the endpoint names may not help.
                sent = estimate_tokens(messages) + self._answer_tokens
                context = min(error.context or sent, sent * 3 // 4)
                # The first two messages are the request, any others an answer and the complaint.
                messages = [*self._build_messages(prompt, context), *messages[2:]]

    def _build_messages(self, prompt: str, context: int) -> list[Message]:
        """The request, with fewer files until it fits into ``context`` tokens (0: unknown)."""
        tokens_before = self._shown_tokens
        while True:
            files = dict(self._select_files(self._shown_tokens * BYTES_PER_TOKEN))
            texts = [*self._list_texts(), *((f"file {path}", text) for path, text in files.items())]
            system = {"role": "system", "content": render_one_request_text(self._spec.bead)}
            messages = [system, {"role": "user", "content": render_shown(prompt, texts)}]
            if context:
                self._answer_tokens = max(min(self._answer_tokens, context // 4), LEAST_ANSWER)
            if not context or estimate_tokens(messages) + self._answer_tokens <= context:
                break
            if self._shown_tokens <= LEAST_TOKENS:
                break
            self._shown_tokens = max(self._shown_tokens // 2, LEAST_TOKENS)
        if self._shown_tokens < tokens_before:
            self._emit({"type": "trimmed", "tokens": self._shown_tokens})
        self._emit({"type": "shown", "files": sorted(files), "tokens": estimate_tokens(messages)})
        return messages

    def _select_files(self, characters: int) -> Iterator[tuple[str, str]]:
        """The paths and texts of the files that the analysis selected, or of the repository's first
        files, in so many characters. Raises ContextTooSmallError for a selected file that does not
        fit."""
        selected = _parse_selected_files(self._read_extra("analysis.json"))
        git, top = self._workspace.git, self._workspace.top
        paths = split_names(git.run("ls-files", "-z", "-c", "-o", "--exclude-standard", cwd=top))
        for path in selected or sorted(paths):
            text = self._read_text(path)
            if selected and len(text) > characters:
                raise ContextTooSmallError(f"{path}: it does not fit into what the model takes")
            if text and len(text) <= characters:
                characters -= len(text)
                yield path, text

    def _read_text(self, path: str) -> str:
        """A text file, "" for any other."""
        try:
            data = self._workspace.read(self._workspace.locate(path)) or b""
            return "" if b"\0" in data else data.decode("utf-8")
        except (OutsideError, UnreadableFileError, UnicodeDecodeError):
            return ""

    def _list_texts(self) -> Iterator[tuple[str, str]]:
        """The names and texts to show beside files."""
        git, top, bead = self._workspace.git, self._workspace.top, self._spec.bead
        yield "the analysis", self._read_extra("analysis.json")
        yield "what the last attempt had changed", self._read_extra("last.patch")
        if bead in ("verify", "mr"):
            git.run("add", "--intent-to-add", "--all", cwd=top)  # else a diff lacks new files
            diff = git.run("diff", *PLAIN_DIFF, "HEAD", "--", cwd=top).decode("utf-8", "replace")
            yield "the change, as git diff shows it", diff[:LARGEST_TEXT]
        if bead == "mr":
            commit_messages = read_commit_messages(git, top, MOST_COMMIT_MESSAGES)
            yield "the last commit messages", "\n\n".join(commit_messages)

    def _read_extra(self, name: str) -> str:
        data = self._workspace.read_extra_file(str(Path(self._spec.handoff) / name)) or b""
        return data.decode("utf-8", "replace")[:LARGEST_TEXT]

    def _apply_answer(self, text: str) -> Any:
        if self._spec.schema is not None:
            return parse_json_answer(text, self._spec.schema)
        blocks = parse_blocks(text)
        if not blocks and (reason := find_no_change_reason(text)):
            return f"changes nothing: {reason}"
        if not blocks:
            raise MalformedError(NO_BLOCKS)
        edits = plan_edits(blocks, self._workspace.read)
        self._workspace.apply(edits)
        return "; ".join(f"{edit.action} {edit.path}" for edit in edits)


def _parse_selected_files(analysis: str) -> tuple[str, ...]:
    try:
        files = json.loads(analysis)["selected"]["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return tuple(path for path in files if isinstance(path, str))


# --- the program ----------------------------------------------------------------------------------

HEARTBEAT_S = 5.0
BASE_URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"


def main(spec_file: str, env: Mapping[str, str]) -> int:
    """Do one bead; the exit status is 0 if its answer could be used."""
    spec = BeadSpec(**json.loads(Path(spec_file).read_bytes()))
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    chat = ChatClient(
        env[BASE_URL],
        env[KEY],
        spec.model,
        on_progress=_Heartbeat().report_progress,
        on_repeat=lambda why: emit({"type": "repeated", "why": why}),
    )
    git = build_isolated_git(Path(env["HOME"]), env["PATH"])
    workspace = Workspace(Path(spec.checkout), git, (Path(spec.handoff),))
    try:
        _keep_out_of_diffs(git, Path(spec.checkout), spec.hidden)
        if spec.one_request:
            answer = OneRequest(chat, workspace, spec, emit).run(prompt)
        else:
            answer = _build_loop(spec, chat, workspace, env).run(prompt)
    except EndpointError as error:
        return _report_failure("endpoint", str(error), error.status)
    except (MalformedError, NotApplicableError) as error:
        return _report_failure("answer", str(error))
    except (ContextTooSmallError, GitError) as error:
        return _report_failure("context", str(error))
    sentence = answer if isinstance(answer, str) else ""
    structured = None if sentence else answer
    emit({"type": "result", "ok": True, "said": sentence, "structured": structured})
    return 0


def _build_loop(
    spec: BeadSpec, chat: ChatClient, workspace: Workspace, env: Mapping[str, str]
) -> AgentLoop:
    # The model's commands get no access to the gateway.
    command_env = {name: value for name, value in env.items() if name not in (BASE_URL, KEY)}
    rules = CommandRules(tuple(spec.allowed), spec.any_command, command_env, spec.command_s)
    limits = LoopLimits(
        spec.answer_tokens, spec.usd, spec.tokens, spec.seconds, (spec.rates[0], spec.rates[1])
    )
    return AgentLoop(chat, Toolbox(workspace, rules, spec.edits), limits, spec.schema, emit)


def _keep_out_of_diffs(git: Git, top: Path, hidden: list[str]) -> None:
    """Keep hidden files out of diffs: a diff of a missing tracked file prints its content."""
    if hidden:
        # So git takes them for unchanged: git-update-index(1), "Skip-worktree bit".
        tracked = git.run("ls-files", "-z", "--", *hidden, cwd=top)
        git.run("update-index", "--skip-worktree", "-z", "--stdin", cwd=top, stdin=tracked)


def emit(event: Mapping[str, Any]) -> None:
    """Report an event."""
    print(json.dumps(event), flush=True)  # noqa: T201 - the agent's output is its way to report


def _report_failure(kind: str, error: str, status: int = 0) -> int:
    emit({"type": "result", "ok": False, "what": kind, "error": error, "status": status})
    return 1


class _Heartbeat:
    """Reports now and then that an answer is arriving, as silence would end the bead."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def report_progress(self, characters: int) -> None:
        if time.monotonic() - self._last_s >= HEARTBEAT_S:
            self._last_s = time.monotonic()
            emit({"type": "receiving", "characters": characters})
