"""Parses a webhook's body, and a comment with a task. Pure functions.

Whoever knows the trigger's address can send any body, so only ids are taken from it, and looked up
at GitLab.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.request import CommentAddress, TaskCommand, Where, parse_task_command
from gitlab_nightshift.settings.setting_groups import TestCommand
from gitlab_nightshift.text.lazy_patterns import compile_lazily

COMMAND = "/nightshift"
LONGEST_TASK = 8_000
"""Characters."""
_NOTEABLES: Mapping[str, tuple[Where, str]] = {
    "Issue": ("issues", "issue"),
    "MergeRequest": ("merge_requests", "merge_request"),
}
_ISSUES = ("issue", "work_item")
"""The second name is used by some versions of GitLab for an issue edited as a work item."""
_LARGEST_ID = 2**63
# Not within a word or an address, such as https://example.com/coder.
_BEGINNING = compile_lazily(rf"(?:^|(?<=\s)){COMMAND}(?=\s|$)")
# Fenced code blocks, block quotes and code spans (spec.commonmark.org, 4.5, 5.1, 6.1).
_QUOTED = compile_lazily(
    r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)|^ {0,3}>[^\n]*|(?<!`)(`+)(?!`)[^`\n]+\2(?!`)"
)
_MODEL = compile_lazily(r"[A-Za-z0-9][\w.:/@\[\]-]{0,199}", re.ASCII)
# Editors and phones turn "--" into an en or em dash, so the flag would be read as text.
_LONG_DASH = compile_lazily(r"(?:^|\s)[\u2013\u2014]+(?:provider|model|dry-run|test)(?:\s|=|$)")


@dataclass(frozen=True)
class IgnoredTrigger:
    """Nothing to do; only the log says why."""

    why: str


@dataclass(frozen=True)
class DeclinedRequest:
    """A request that is declined with a reply."""

    why: str
    place: CommentAddress


@dataclass(frozen=True)
class EditedIssue:
    """The text of an issue was edited: perhaps a box of the dashboard was ticked."""

    iid: int


def read_event(
    body: bytes, project_id: str
) -> CommentAddress | EditedIssue | IgnoredTrigger | None:
    """The address of the comment that a webhook reports, or the edited issue.

    None for a body that is not a webhook's: GitLab creates one for every call of a trigger's
    address.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return IgnoredTrigger("the body of the trigger is not JSON")
    if not isinstance(data, dict):
        return IgnoredTrigger("the body of the trigger is not a JSON object")
    if not {"object_kind", "event_name", "event_type"} & set(data):
        return None
    if data.get("object_kind") in _ISSUES:
        return _parse_edit(data, project_id)
    if data.get("object_kind") != "note":
        return IgnoredTrigger("the webhook's event is not a comment")
    return _parse_place(data, project_id)


def _parse_place(data: Mapping[str, Any], project_id: str) -> CommentAddress | IgnoredTrigger:
    note = _read_object(data, "object_attributes")
    noteable = note.get("noteable_type")
    if not isinstance(noteable, str) or noteable not in _NOTEABLES:
        return IgnoredTrigger("the comment is not on an issue or merge request")
    if str(_read_number(data, "project_id")) != project_id:
        return IgnoredTrigger("the comment is on another project")
    where, key = _NOTEABLES[noteable]
    iid, number = _read_number(_read_object(data, key), "iid"), _read_number(note, "id")
    if iid is None or number is None:
        return IgnoredTrigger("the webhook does not name a comment")
    thread = note.get("discussion_id")
    known = isinstance(thread, str) and re.fullmatch(r"[0-9a-f]{8,64}", thread)
    return CommentAddress(where, iid, number, str(thread) if known else "")


def _parse_edit(data: Mapping[str, Any], project_id: str) -> EditedIssue | IgnoredTrigger:
    iid = _read_number(_read_object(data, "object_attributes"), "iid")
    if iid is None or str(_read_number(_read_object(data, "project"), "id")) != project_id:
        return IgnoredTrigger("the issue is on another project")
    if "description" not in _read_object(data, "changes"):
        return IgnoredTrigger("the text of the issue was not edited")
    return EditedIssue(iid)


def _read_object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _read_number(data: Mapping[str, Any], name: str) -> int | None:
    found = data.get(name)
    # Not isinstance: to that, JSON's true is an int.
    return found if type(found) is int and 0 < found < _LARGEST_ID else None


# --- the comment's text -----------------------------------------------------------------------


def is_command(text: str) -> bool:
    """True if a comment is addressed to this program."""
    return _find_beginning(text) is not None


def _find_beginning(text: str) -> re.Match[str] | None:
    """The first ``/nightshift`` outside of code and quotes."""
    return _BEGINNING.search(_QUOTED.sub(lambda found: "`" * len(found[0]), text))


def parse_command(text: str) -> TaskCommand:
    """The task in a comment with ``/nightshift``: the words after it, or else those before.

    Raises ``E_CONFIG`` for an invalid command.
    """
    found = _find_beginning(text)
    before, words = (text[: found.start()], text[found.end() :]) if found else (text, "")
    words = (words if words.strip() else before).strip()
    if len(words) > LONGEST_TASK:
        raise build_config_error(f"the task has more than {LONGEST_TASK} characters")
    if _LONG_DASH.search(words.partition("\n")[0]):
        raise build_config_error("a flag begins with two hyphens (--), not with a dash")
    command = parse_task_command(words)
    if command.model and not _MODEL.fullmatch(command.model):
        raise build_config_error("--model: expected the id of a model")
    return command


def build_test_command(command: TaskCommand, known: Mapping[str, TestCommand]) -> str:
    """The command that ``--test`` names, "" without one. Raises ``E_CONFIG`` for an id or an
    argument that ``policy.test_commands`` does not list."""
    if not command.test_id:
        return ""
    if command.test_id not in known:
        listed = ", ".join(sorted(known)) or "none; list them in policy.test_commands"
        raise build_config_error(f"--test {command.test_id}: no such test; known are: {listed}")
    test = known[command.test_id]
    for word in command.test_args:
        if word not in test.args:
            allowed = ", ".join(test.args) or "none"
            raise build_config_error(
                f"--test {command.test_id}: the argument {word} is not on its list (allowed: "
                f"{allowed}); write --test and its arguments last, or -- behind them"
            )
    return shlex.join([*test.command, *command.test_args])
