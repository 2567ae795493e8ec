"""Reads a delegation's payload strictly, and reports all its mistakes in one line. Also builds the
JSON Schemas of payload and result."""

import json
from pathlib import PurePosixPath
from typing import Any

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.records import delegation_records
from gitlab_nightshift.records.delegation_records import DelegationResult, Payload
from gitlab_nightshift.records.storage import build_adapter
from gitlab_nightshift.system.file_names import is_dot_git
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import make_printable

LARGEST = 1_000_000
"""Bytes of a payload."""
MOST_NAMED = 10
"""Mistakes that an error names."""
_MODEL = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_PATTERN_CHARACTERS = set("*?[]!#\\")
"""Not allowed in ``workspace_subdir``, which becomes a pattern of ``paths`` (gitignore(5))."""


def read_payload(raw: bytes) -> Payload:
    """The payload of a JSON object.

    Raises NightshiftError ``E_CONFIG`` with every mistake, in one line.
    """
    from pydantic import ValidationError

    if len(raw) > LARGEST:
        raise _build_error(f"more than {LARGEST:,} bytes; a task is a few sentences")
    try:
        # Readers differ in which of two equal keys they take (RFC 8259, 4).
        json.loads(raw, object_pairs_hook=_refuse_duplicates)
        payload: Payload = build_adapter(Payload).validate_json(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        mistakes = [
            _describe_error(each["loc"], str(each["type"]), str(each["msg"])) for each in errors
        ]
        more = [f"and {len(mistakes) - MOST_NAMED} more"] if len(mistakes) > MOST_NAMED else []
        raise _build_error("; ".join([*mistakes[:MOST_NAMED], *more])) from None
    except (ValueError, RecursionError) as error:
        raise _build_error(f"not JSON: {error}") from None
    _check_values(payload)
    return payload


def build_schemas() -> dict[str, Any]:
    """The JSON Schemas of payload and result."""
    from pydantic import TypeAdapter

    from gitlab_nightshift.settings.schema import add_descriptions

    payload = TypeAdapter(Payload).json_schema()
    add_descriptions({**payload["$defs"], Payload.__name__: payload}, delegation_records)
    return {
        "payload": payload,
        "result": TypeAdapter(DelegationResult).json_schema(mode="serialization"),
    }


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key appears twice")
    return data


def _describe_error(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    keys = (make_printable(str(part), "?") for part in loc)
    path = ".".join(key if len(key) <= 60 else f"{key[:60]}…" for key in keys)
    if kind == "unexpected_keyword_argument":
        return f"{path}: unknown key"
    return f"{path}: {message}" if path else message


def _build_error(why: str) -> NightshiftError:
    return build_config_error(f"payload: {why}")


# --- what types cannot express --------------------------------------------------------------------


def _check_values(payload: Payload) -> None:
    if not payload.task_prompt.strip():
        raise _build_error("task_prompt: there is no task")
    if "\0" in payload.task_prompt:
        raise _build_error("task_prompt: must not contain a NUL character")
    for name, text in _list_plain_texts(payload):
        if not text.isprintable():
            raise _build_error(f"{name}: must not contain control characters")
    if payload.model is not None and not _MODEL.fullmatch(payload.model):
        raise _build_error("model: letters, digits and . _ : / @ + - make an id")
    _check_subdir(payload.workspace.workspace_subdir)
    _check_combinations(payload)


def _list_plain_texts(payload: Payload) -> list[tuple[str, str]]:
    return [
        ("model", payload.model or ""),
        ("repo.value", payload.repo.value),
        ("workspace.workspace_subdir", payload.workspace.workspace_subdir),
        ("workspace.base_ref", payload.workspace.base_ref),
        ("workspace.branch_name", payload.workspace.branch_name),
        ("execution.test_command_id", payload.execution.test_command_id or ""),
        *(("execution.test_args", text) for text in payload.execution.test_args),
    ]


def _check_subdir(text: str) -> None:
    if not text:
        return
    parts = PurePosixPath(text).parts
    if text.startswith("/") or ".." in parts or is_dot_git(text):
        raise _build_error("workspace.workspace_subdir: expected a folder inside the repository")
    if set(text) & _PATTERN_CHARACTERS:
        raise _build_error("workspace.workspace_subdir: none of * ? [ ] ! # \\ may appear in it")


def _check_combinations(payload: Payload) -> None:
    workspace, execution = payload.workspace, payload.execution
    if execution.test_args and not execution.test_command_id:
        raise _build_error("execution.test_args: test_command_id is missing")
    if workspace.checkout_mode == "in_place" and workspace.branch_name:
        raise _build_error(
            "workspace.branch_name: in_place leaves the change uncommitted, on no branch"
        )
    if not workspace.clean_before and workspace.checkout_mode != "copy":
        raise _build_error("workspace.clean_before: false is only allowed with checkout_mode copy")
    if payload.repo.type == "git_url" and workspace.checkout_mode != "worktree":
        raise _build_error("workspace.checkout_mode: only worktree is allowed with a git_url")
    if payload.debug.codex_command and payload.provider == "claude_code":
        raise _build_error("debug.codex_command: it replaces codex, not claude_code")
