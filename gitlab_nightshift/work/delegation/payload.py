"""The payload at the edge: bounded, strict, every mistake in one line; and both JSON Schemas."""

import json
import re
from pathlib import PurePosixPath
from typing import Any

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.host.paths import is_dot_git
from gitlab_nightshift.records.delegation import DelegationResult, Payload

LARGEST = 1_000_000
"""Bytes of a payload."""
MOST_TOLD = 10
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_PATTERN_SIGNS = set("*?[]!#\\")


def read_payload(raw: bytes) -> Payload:
    """The payload of a JSON object.

    Raises NightshiftError ``E_CONFIG`` with every mistake, in one line.
    """
    from pydantic import TypeAdapter, ValidationError

    if len(raw) > LARGEST:
        raise _wrong(f"more than {LARGEST:,} bytes; a task is a few sentences")
    try:
        json.loads(raw, object_pairs_hook=_without_doubles)
        payload = TypeAdapter(Payload).validate_json(raw)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        told = [_told(each["loc"], str(each["type"]), str(each["msg"])) for each in found]
        more = [f"and {len(told) - MOST_TOLD} more"] if len(told) > MOST_TOLD else []
        raise _wrong("; ".join([*told[:MOST_TOLD], *more])) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(f"not JSON: {error}") from None
    _check(payload)
    return payload


def schemas() -> dict[str, Any]:
    """The JSON Schemas of payload and result."""
    from pydantic import TypeAdapter

    return {
        "payload": TypeAdapter(Payload).json_schema(),
        "result": TypeAdapter(DelegationResult).json_schema(mode="serialization"),
    }


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _told(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    place = ".".join(_shown(str(part)) for part in loc)
    if kind == "unexpected_keyword_argument":
        return f"{place}: unknown key"
    return f"{place}: {message}" if place else message


def _shown(text: str) -> str:
    flat = "".join(c if c.isprintable() else "?" for c in text)
    return flat if len(flat) <= 60 else f"{flat[:60]}…"


def _wrong(why: str) -> NightshiftError:
    return config_error(f"payload: {why}")


# --- what types cannot say ------------------------------------------------------------------------


def _check(payload: Payload) -> None:
    if not payload.task_prompt.strip():
        raise _wrong("task_prompt: there is no task")
    if "\0" in payload.task_prompt:
        raise _wrong("task_prompt: a NUL character")
    for place, text in _plain_texts(payload):
        if not text.isprintable():
            raise _wrong(f"{place}: a control character")
    if payload.model is not None and not _MODEL.fullmatch(payload.model):
        raise _wrong("model: letters, digits and . _ : / @ + - make an id")
    _check_subdir(payload.workspace.workspace_subdir)
    _check_together(payload)


def _plain_texts(payload: Payload) -> list[tuple[str, str]]:
    args = [("execution.test_args", text) for text in payload.execution.test_args]
    return [
        ("model", payload.model or ""),
        ("repo.value", payload.repo.value),
        ("workspace.workspace_subdir", payload.workspace.workspace_subdir),
        ("workspace.base_ref", payload.workspace.base_ref),
        ("workspace.branch_name", payload.workspace.branch_name),
        ("execution.test_command_id", payload.execution.test_command_id or ""),
        *args,
    ]


def _check_subdir(text: str) -> None:
    if not text:
        return
    parts = PurePosixPath(text).parts
    if text.startswith("/") or ".." in parts or is_dot_git(text):
        raise _wrong("workspace.workspace_subdir: a folder inside the repository is expected")
    if set(text) & _PATTERN_SIGNS:
        raise _wrong("workspace.workspace_subdir: none of * ? [ ] ! # \\ may stand in it")


def _check_together(payload: Payload) -> None:
    workspace, execution = payload.workspace, payload.execution
    if execution.test_args and not execution.test_command_id:
        raise _wrong("execution.test_args: of which test? test_command_id is missing")
    if workspace.checkout_mode == "in_place" and workspace.branch_name:
        raise _wrong("workspace.branch_name: in_place leaves the change uncommitted, on no branch")
    if not workspace.clean_before and workspace.checkout_mode != "copy":
        raise _wrong("workspace.clean_before: false has a meaning in checkout_mode copy only")
    if payload.repo.type == "git_url" and workspace.checkout_mode != "worktree":
        raise _wrong("workspace.checkout_mode: worktree is the only one for a git_url")
    if payload.debug.codex_command and payload.provider == "claude_code":
        raise _wrong("debug.codex_command: it stands in for codex, not for claude_code")
