"""The agent ``patch`` inside the sandbox: a prompt on stdin, JSON lines on stdout.

It has the rights of any agent and no more: a checkout, a scratch folder, and the model gateway.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.patching import checkout_files
from gitlab_nightshift.patching.blocks import MalformedError, find_no_change_reason, parse
from gitlab_nightshift.patching.chat_client import ChatClient, EndpointError, Message
from gitlab_nightshift.patching.edits import NotApplicableError, plan_edits
from gitlab_nightshift.patching.file_listing import list_files
from gitlab_nightshift.patching.json_answers import parse_json_answer
from gitlab_nightshift.patching.model_context import (
    ContextRequest,
    ContextTooSmallError,
    select_files,
)
from gitlab_nightshift.patching.model_question import RequestSize, ask_until_usable
from gitlab_nightshift.patching.prompt_text import (
    NO_BLOCKS,
    list_answer_formats,
    render_system_text,
    render_user_text,
)
from gitlab_nightshift.repository.git import (
    PLAIN_DIFF,
    Git,
    GitError,
    build_isolated_git,
    read_commit_messages,
)

PULSE_S = 5.0
LARGEST_DIFF = 60_000
"""Characters of a diff that is shown; a night's change is far smaller."""
MESSAGES = 15
_LARGEST_ANALYSIS = 600_000
_LINE = "\n---\n\n"
"""Between what all prompts begin with and the task."""


@dataclass(frozen=True)
class BeadSpec:
    """One bead, as the provider describes it; none of it is secret."""

    bead: str
    model: str
    checkout: str
    analysis_file: str
    schema: dict[str, Any] | None
    paths: list[str]
    exclude_paths: list[str]
    context_tokens: int
    answer_tokens: int


def main(spec_file: str, env: Mapping[str, str]) -> int:
    """Do one bead; the exit status is 0 where its answer could be used."""
    spec = BeadSpec(**json.loads(Path(spec_file).read_bytes()))
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    pulse = _Heartbeat()
    address, key = env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"]
    chat = ChatClient(address, key, spec.model, pulse.report_progress, _tell_repetition)
    try:
        structured = _BeadRun(spec, chat, env).run(prompt)
    except EndpointError as error:
        return _report_failure("endpoint", str(error), error.status)
    except (MalformedError, NotApplicableError) as error:
        return _report_failure("answer", str(error))
    except (ContextTooSmallError, GitError) as error:
        return _report_failure("context", str(error))
    _tell({"type": "result", "ok": True, "structured": structured})
    return 0


def _report_failure(what: str, error: str, status: int = 0) -> int:
    _tell({"type": "result", "ok": False, "what": what, "error": error, "status": status})
    return 1


def _tell(event: Mapping[str, Any]) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201 - the agent's output is its way to report


def _tell_repetition(why: str) -> None:
    _tell({"type": "repeated", "why": why})


class _Heartbeat:
    """Reports now and then that the answer is coming: a slow model is not a silent one."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def report_progress(self, characters: int) -> None:
        if time.monotonic() - self._last_s >= PULSE_S:
            self._last_s = time.monotonic()
            _tell({"type": "hearing", "characters": characters})


class _BeadRun:
    """A bead's question and what is made of the answer."""

    def __init__(self, spec: BeadSpec, chat: ChatClient, env: Mapping[str, str]) -> None:
        self._spec, self._chat = spec, chat
        self._top = Path(spec.checkout)
        self._read = checkout_files.make_reader(self._top)
        self._git = build_isolated_git(Path(env["HOME"]), env["PATH"])

    def run(self, prompt: str) -> object:
        """The structured answer; None for Implement, whose change is in the checkout."""
        formats = list_answer_formats(self._spec.bead, self._spec.schema)
        use = self._apply_answer if self._spec.schema is None else self._parse_report
        return ask_until_usable(
            self._chat,
            lambda tokens: self._build_messages(prompt, tokens),
            RequestSize(self._spec.context_tokens, self._spec.answer_tokens),
            formats,
            use,
            _tell,
        )

    def _parse_report(self, text: str) -> dict[str, Any]:
        return parse_json_answer(text, self._spec.schema or {})

    def _apply_answer(self, text: str) -> None:
        blocks = parse(text)
        if not blocks and (reason := find_no_change_reason(text)):
            _tell({"type": "said", "text": f"changes nothing: {reason}"})
            return
        if not blocks:
            raise MalformedError(NO_BLOCKS)
        edits = plan_edits(blocks, self._read)
        checkout_files.apply(self._top, edits)
        for edit in edits:
            _tell({"type": "said", "text": f"{edit.action} {edit.path}"})

    def _build_messages(self, prompt: str, tokens: int) -> list[Message]:
        spec = self._spec
        files = list_files(self._git, self._top, spec.paths, spec.exclude_paths)
        analysis = _read_handed_file(Path(spec.analysis_file))
        more = [("the analysis", analysis)] if analysis else []
        if last := _read_handed_file(Path(spec.analysis_file).with_name("last.patch")):
            more += [("what the last attempt had changed", last)]
        if spec.bead in ("verify", "mr"):
            more += [("the change, as git diff shows it", _read_diff(self._git, self._top))]
        if spec.bead == "mr":
            log = read_commit_messages(self._git, self._top, MESSAGES)
            more += [("the last commit messages", "\n\n".join(log))]
        task = prompt.partition(_LINE)[2] or prompt  # what stands above it names files of any kind
        wanted = self._build_context_request(f"{task}\n{analysis}", _parse_selected_files(analysis))
        shown = select_files(files, wanted, self._read, tokens)
        _tell({"type": "shown", "files": sorted(shown.files), "tokens": shown.tokens})
        return [
            {"role": "system", "content": render_system_text(spec.bead)},
            {"role": "user", "content": render_user_text(prompt, shown, more)},
        ]

    def _build_context_request(self, text: str, selected: tuple[str, ...]) -> ContextRequest:
        if self._spec.bead == "implement":
            return ContextRequest(text, selected)
        new = () if self._spec.bead == "analyze" else _list_new_files(self._git, self._top)
        return ContextRequest(text, first=(*new, *selected))


def _read_handed_file(file: Path) -> str:
    """The JSON of what Analyze found, or the last attempt's patch; "" where there is none yet."""
    if not file.is_file():
        return ""
    with file.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(_LARGEST_ANALYSIS)


def _parse_selected_files(analysis: str) -> tuple[str, ...]:
    try:
        files = json.loads(analysis)["selected"]["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return tuple(path for path in files if isinstance(path, str))


def _read_diff(git: Git, top: Path) -> str:
    out = git.run("diff", *PLAIN_DIFF, "HEAD", "--", cwd=top).decode("utf-8", "replace")
    return out if len(out) <= LARGEST_DIFF else f"{out[:LARGEST_DIFF]}\n(the rest is left out)\n"


def _list_new_files(git: Git, top: Path) -> tuple[str, ...]:
    """New files: a diff does not show them."""
    out = git.run("ls-files", "-z", "-o", "--exclude-standard", cwd=top)
    names = (os.fsdecode(name) for name in out.split(b"\0") if name)
    return tuple(name for name in names if name.isprintable() and not name.endswith("/"))
