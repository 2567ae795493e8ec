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

from gitlab_nightshift.host.git import PLAIN_DIFF, Git, GitError, commit_messages, pristine
from gitlab_nightshift.patching import tree
from gitlab_nightshift.patching.answers import json_answer
from gitlab_nightshift.patching.asking import answered
from gitlab_nightshift.patching.blocks import Malformed, no_change, parse
from gitlab_nightshift.patching.chat import Chat, EndpointError, Message
from gitlab_nightshift.patching.context import TooSmall, Wanted, chosen
from gitlab_nightshift.patching.edits import NotApplicable, planned
from gitlab_nightshift.patching.listing import listed
from gitlab_nightshift.patching.wording import NO_BLOCKS, answer_formats, system_text, user_text

PULSE_S = 5.0
LARGEST_DIFF = 60_000
"""Characters of a diff that is shown; a night's change is far smaller."""
MESSAGES = 15
_LARGEST_ANALYSIS = 600_000


@dataclass(frozen=True)
class Spec:
    """One bead, as the provider asks for it; nothing of it is secret."""

    bead: str
    model: str
    checkout: str
    analysis_file: str
    schema: dict[str, Any] | None
    paths: list[str]
    exclude_paths: list[str]
    context_tokens: int


def main(spec_file: str, env: Mapping[str, str]) -> int:
    """Do one bead; the exit status is 0 where its answer could be used."""
    spec = Spec(**json.loads(Path(spec_file).read_bytes()))
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    pulse = _Pulse()
    chat = Chat(env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"], spec.model, pulse.heard)
    try:
        structured = _Bead(spec, chat, env).done(prompt)
    except EndpointError as error:
        return _failed("endpoint", str(error), error.status)
    except (Malformed, NotApplicable) as error:
        return _failed("answer", str(error))
    except (TooSmall, GitError) as error:
        return _failed("context", str(error))
    _tell({"type": "result", "ok": True, "structured": structured})
    return 0


def _failed(what: str, error: str, status: int = 0) -> int:
    _tell({"type": "result", "ok": False, "what": what, "error": error, "status": status})
    return 1


def _tell(event: Mapping[str, Any]) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201 - the agent's output is its way to report


class _Pulse:
    """Tells now and then that the answer is coming: a slow model is not a silent one."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def heard(self, characters: int) -> None:
        if time.monotonic() - self._told >= PULSE_S:
            self._told = time.monotonic()
            _tell({"type": "hearing", "characters": characters})


class _Bead:
    """A bead's question and what is made of the answer."""

    def __init__(self, spec: Spec, chat: Chat, env: Mapping[str, str]) -> None:
        self._spec, self._chat = spec, chat
        self._top = Path(spec.checkout)
        self._read = tree.reader(self._top)
        self._git = pristine(Path(env["HOME"]), env["PATH"])

    def done(self, prompt: str) -> object:
        """The structured answer; None for Implement, whose change is in the checkout."""
        formats = answer_formats(self._spec.bead, self._spec.schema)
        use = self._applied if self._spec.schema is None else self._reported
        limit = self._spec.context_tokens
        return answered(
            self._chat, lambda tokens: self._messages(prompt, tokens), limit, formats, use, _tell
        )

    def _reported(self, text: str) -> dict[str, Any]:
        return json_answer(text, self._spec.schema or {})

    def _applied(self, text: str) -> None:
        blocks = parse(text)
        if not blocks and (reason := no_change(text)):
            _tell({"type": "said", "text": f"changes nothing: {reason}"})
            return
        if not blocks:
            raise Malformed(NO_BLOCKS)
        edits = planned(blocks, self._read)
        tree.apply(self._top, edits)
        for edit in edits:
            _tell({"type": "said", "text": f"{edit.action} {edit.path}"})

    def _messages(self, prompt: str, tokens: int) -> list[Message]:
        spec = self._spec
        files = listed(self._git, self._top, spec.paths, spec.exclude_paths)
        analysis = _analysis(Path(spec.analysis_file))
        more = [("the analysis", analysis)] if analysis else []
        if spec.bead in ("verify", "mr"):
            more += [("the change, as git diff shows it", _diff(self._git, self._top))]
        if spec.bead == "mr":
            log = commit_messages(self._git, self._top, MESSAGES)
            more += [("the last commit messages", "\n\n".join(log))]
        wanted = self._wanted(f"{prompt}\n{analysis}", _selected(analysis))
        shown = chosen(files, wanted, self._read, tokens)
        _tell({"type": "shown", "files": sorted(shown.files), "tokens": shown.tokens})
        return [
            {"role": "system", "content": system_text(spec.bead)},
            {"role": "user", "content": user_text(prompt, shown, more)},
        ]

    def _wanted(self, text: str, selected: tuple[str, ...]) -> Wanted:
        if self._spec.bead == "implement":
            return Wanted(text, selected)
        new = () if self._spec.bead == "analyze" else _new(self._git, self._top)
        return Wanted(text, first=(*new, *selected))


def _analysis(file: Path) -> str:
    """The JSON of what Analyze found, "" before it did."""
    if not file.is_file():
        return ""
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(_LARGEST_ANALYSIS)


def _selected(analysis: str) -> tuple[str, ...]:
    try:
        files = json.loads(analysis)["selected"]["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return tuple(path for path in files if isinstance(path, str))


def _diff(git: Git, top: Path) -> str:
    out = git.run("diff", *PLAIN_DIFF, "HEAD", "--", cwd=top).decode("utf-8", "replace")
    return out if len(out) <= LARGEST_DIFF else f"{out[:LARGEST_DIFF]}\n(the rest is left out)\n"


def _new(git: Git, top: Path) -> tuple[str, ...]:
    """New files: a diff does not show them."""
    out = git.run("ls-files", "-z", "-o", "--exclude-standard", cwd=top)
    names = (os.fsdecode(name) for name in out.split(b"\0") if name)
    return tuple(name for name in names if name.isprintable() and not name.endswith("/"))
