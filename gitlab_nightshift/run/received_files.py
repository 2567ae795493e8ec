"""Stores what the redactor receives: records and patches, which are parsed strictly, redacted and
written atomically; and raw logs, with strict names, only a few of them open at a time.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from gitlab_nightshift.errors import Code, NightshiftError, is_disk_full
from gitlab_nightshift.records.codec import LARGEST_INT, InvalidRecordError, Length, decode_record
from gitlab_nightshift.records.products import Bundle, Outcome, Plan, Publication
from gitlab_nightshift.records.run_results import RunResult
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH, map_texts, to_json
from gitlab_nightshift.redaction.redactor import Redactor, holds_secret, refuse_secrets
from gitlab_nightshift.system.disk_reserve import Reserve
from gitlab_nightshift.system.openat import open_parent, remove_path, replace_file, write_all
from gitlab_nightshift.system.raw_logs import Logs, Sink
from gitlab_nightshift.text.lazy_patterns import compile_lazily

LARGEST_RECORD = LARGEST_BUNDLE
"""Bytes of one stored record."""
RedactText = Callable[[str], str]


def _redact_record(record: Any, redact: RedactText, exact: tuple[str, ...]) -> Any:
    """A redacted record. The fields ``exact`` are not changed: later stages compare them."""
    redacted = map_texts(record, redact)
    return dataclasses.replace(redacted, **{name: getattr(record, name) for name in exact})


def redact_bundle(bundle: Bundle, redact: RedactText) -> Bundle:
    """A redacted bundle. Ids and paths are not changed: publish compares them."""
    redacted: Bundle = _redact_record(bundle, redact, _EXACT_IN_BUNDLE)
    original = bundle.proposal
    if original is None or redacted.proposal is None:
        return redacted
    pairs = zip(redacted.proposal.gates, original.gates, strict=True)
    gates = tuple(dataclasses.replace(gate, path=unredacted.path) for gate, unredacted in pairs)
    proposal = dataclasses.replace(
        redacted.proposal, change=original.change, category=original.category, gates=gates
    )
    return dataclasses.replace(redacted, proposal=proposal)


def _collect_exact_texts(bundle: Bundle) -> bytes:
    """The texts that ``redact_bundle`` does not change."""
    texts: list[str] = [getattr(bundle, name) for name in _EXACT_IN_BUNDLE]
    if bundle.proposal:
        change = bundle.proposal.change
        texts += [bundle.proposal.category, change.tree_id, *change.files]
        texts += [gated.path for gated in bundle.proposal.gates]
    # Texts may have lone surrogates, which strict UTF-8 cannot encode.
    return "\n".join(texts).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class _RecordKind:
    """The class of a kind of record, and its fields that are not redacted."""

    record: type[Any]
    exact: tuple[str, ...] = ()


_EXACT_IN_BUNDLE = ("run_id", "created_at", "base_sha", "target_branch", "category_used")
_CHOICES_OF_PLAN = ("scheduled", "categories", "recent_files", "verify_commands")
_EXACT_IN_PLAN = ("run_id", "date", "base_sha", "target_branch", *_CHOICES_OF_PLAN)
_RECORD_KINDS = {
    "plan": _RecordKind(Plan, _EXACT_IN_PLAN),
    "published": _RecordKind(Publication, ("run_id", "branch", "commit_sha")),
    "result": _RecordKind(RunResult),
}
KINDS = ("bundle", "patch", "text", "page", "delegation", *_RECORD_KINDS)
"""``text`` is a report, redacted as plain text; ``page`` is HTML that allows no scripts. ``bundle``
and ``patch`` of a folder belong together: the patch is sent first, and if it was refused, the
bundle is stored with the reason."""


def _find_kind(kind: str) -> _RecordKind:
    if kind == "delegation":
        # Imported late: the job log waits for the start of the redactor.
        from gitlab_nightshift.records.delegation_records import DelegationResult

        return _RecordKind(DelegationResult)
    return _RECORD_KINDS.get(kind, _RecordKind(Bundle))


class RecordStore:
    """Stores records in the folder of the results. ``redact_text`` redacts one text of a record,
    ``redact`` a whole file; ``reserve`` is disk space that is kept free until a record needs it."""

    def __init__(
        self, folder: Path, redact: Redactor, redact_text: RedactText, reserve: Reserve
    ) -> None:
        self._folder, self._redact, self._reserve = folder, redact, reserve
        self._redact_text = redact_text
        self._refused_patches: dict[str, NightshiftError] = {}

    def store(self, name: str, kind: str, data: bytes) -> None:
        """Redact and write a record. Raises InvalidRecordError if it is refused."""
        if len(data) > LARGEST_RECORD and kind != "patch":
            raise InvalidRecordError(f"{name}: it has more than {LARGEST_RECORD} bytes")
        if kind == "patch":
            self._check_patch(name, data)
            self._write(name, data)
        elif kind in ("text", "page"):
            if kind == "page":
                _check_page(name, data)
            self._write(name, self._redact(data))
        else:
            self._write(name, to_json(self._prepare_record(name, kind, data)).encode())

    def _prepare_record(self, name: str, kind: str, data: bytes) -> Any:
        record_kind = _find_kind(kind)
        record = decode_record(record_kind.record, data)
        version = getattr(record_kind.record, "version", None)
        if getattr(record, "version", None) != version:
            raise InvalidRecordError(f"it is not of version {version}")
        if isinstance(record, Bundle):
            return self._prepare_bundle(name, record)
        return _redact_record(record, self._redact_text, record_kind.exact)

    def _prepare_bundle(self, name: str, bundle: Bundle) -> Bundle:
        error = self._refused_patches.get(_find_parent(name))
        redacted = redact_bundle(bundle, self._redact_text)
        if holds_secret(_collect_exact_texts(bundle), self._redact.values):
            text = "not published: a path or an id of the change holds the value of a variable"
            error = NightshiftError(Code.POLICY_DENY, text)
            redacted = dataclasses.replace(map_texts(bundle, self._redact_text), proposal=None)
        if error is None:
            return redacted
        return dataclasses.replace(
            redacted,
            outcome=Outcome.FAILED,
            error_code=error.code.value,
            reason=error.message,
        )

    def _check_patch(self, name: str, data: bytes) -> None:
        # The patch of a later attempt replaces one that was refused.
        self._refused_patches.pop(_find_parent(name), None)
        try:
            if len(data) > LARGEST_PATCH:
                text = f"not published: {name} has more than {LARGEST_PATCH} bytes"
                raise NightshiftError(Code.PARSE_ERROR, text)
            refuse_secrets(data, self._redact.values)
        except NightshiftError as error:
            self._refused_patches[_find_parent(name)] = error
            remove_path(self._folder / name)
            raise InvalidRecordError(error.message) from None

    def _write(self, name: str, data: bytes) -> None:
        self._reserve.release()
        opened = open_parent(self._folder, name, create=True)
        try:
            with opened as (parent, base_name), replace_file(base_name, parent, 0o666) as file:
                write_all(file, data)
        except OSError as error:
            if not is_disk_full(error):
                raise
            raise InvalidRecordError(f"{name}: no space left on the disk of the results") from None


def _check_page(name: str, data: bytes) -> None:
    # Imported late: the job log waits for the start of the redactor, a page is sent at the end.
    from gitlab_nightshift.stages.report.page import read_beginning

    if not data.startswith(read_beginning().encode()):
        raise InvalidRecordError(f"{name}: it is no page of this program")


def _find_parent(name: str) -> str:
    return name.rpartition("/")[0]


# --- raw logs -------------------------------------------------------------------------------------


MOST_LOGS, MOST_OPEN, MOST_TEXTS = 5_000, 16, 50
"""Logs of all senders; open logs of one sender; text files of one sender."""
_LOG_NAME = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.(?:out|err|txt|jsonl?)", re.ASCII)
"""Only extensions that a browser neither runs nor renders when it shows artifacts. ``.gz`` is
appended to the names of compressed logs."""

Name = Annotated[str, Length(200)]


# The payloads of frames about logs (wire/channel.py: FrameKind). The logs of a group are numbered
# from ``first`` on, in the order of its names.


@dataclass(frozen=True)
class _OpenMessage:
    first: int
    names: Annotated[tuple[Name, ...], Length(MOST_OPEN, least=1)]


@dataclass(frozen=True)
class _CloseMessage:
    first: int


@dataclass(frozen=True)
class _RenameMessage:
    old: Name
    new: Name


@dataclass(frozen=True)
class _TextMessage:
    name: Name
    text: str


@dataclass
class _LogGroup:
    """Logs that were opened together."""

    names: tuple[str, ...]
    logs: tuple[Sink, ...]
    closing: contextlib.ExitStack


@dataclass
class ReceivedLogs:
    """Writes the raw logs and text files of one sender, which an agent may control. ``used_names``
    are those of all senders' logs. Methods raise InvalidRecordError and OSError."""

    logs: Logs
    used_names: set[str]
    _groups: dict[int, _LogGroup] = field(default_factory=dict)
    _closed_names: set[str] = field(default_factory=set)
    _text_names: set[str] = field(default_factory=set)
    _next_number: int = 0

    def open(self, payload: bytes) -> None:
        """Open a group of logs."""
        message = decode_record(_OpenMessage, payload)
        if not self._next_number <= message.first <= LARGEST_INT - MOST_OPEN:
            raise InvalidRecordError("a log has the number of another")
        open_count = sum(len(group.names) for group in self._groups.values())
        if open_count + len(message.names) > MOST_OPEN:
            raise InvalidRecordError(f"more than {MOST_OPEN} logs are open")
        self._use_names(*message.names)
        self._next_number = message.first + len(message.names)
        # Raw logs may fill the disk: reserve space for the records first.
        self.logs.reserve.allocate()
        closing = contextlib.ExitStack()
        sinks = closing.enter_context(self.logs.open_logs(*message.names))
        self._groups[message.first] = _LogGroup(message.names, sinks, closing)

    def write(self, payload: bytes) -> None:
        """Append to a log: the first eight bytes are its number."""
        number = int.from_bytes(payload[:8], "big")
        for first, group in self._groups.items():
            if first <= number < first + len(group.logs):
                group.logs[number - first].write(payload[8:])
                return
        raise InvalidRecordError("a log that is not open")

    def close(self, payload: bytes) -> None:
        """Close a group of logs."""
        group = self._groups.pop(decode_record(_CloseMessage, payload).first, None)
        if group is None:
            raise InvalidRecordError("a log that is not open")
        self._closed_names.update(group.names)
        group.closing.close()

    def close_all(self) -> None:
        """Close the logs that an ended sender left open."""
        for group in self._groups.values():
            with contextlib.suppress(OSError):
                group.closing.close()
        self._groups.clear()

    def rename(self, payload: bytes) -> None:
        """Rename a closed log."""
        message = decode_record(_RenameMessage, payload)
        if message.old not in self._closed_names:
            raise InvalidRecordError("a log that is not there")
        self._use_names(message.new)
        path = self.logs.find_log(message.old)
        path.rename(path.with_name(path.name.replace(message.old, message.new, 1)))
        self._closed_names.remove(message.old)
        self._closed_names.add(message.new)
        self.used_names.remove(message.old)

    def write_text(self, payload: bytes) -> None:
        """Write a whole text file."""
        message = decode_record(_TextMessage, payload)
        if message.name not in self._text_names:
            if len(self._text_names) >= MOST_TEXTS:
                raise InvalidRecordError(f"more than {MOST_TEXTS} texts of its own")
            self._use_names(message.name)
            self._text_names.add(message.name)
        self.logs.write(message.name, message.text)

    def _use_names(self, *names: str) -> None:
        """Check the names of new logs, and add them to ``used_names``."""
        if not all(map(_LOG_NAME.fullmatch, names)):
            raise InvalidRecordError("invalid log name")
        if self.used_names.intersection(names) or len(set(names)) < len(names):
            raise InvalidRecordError("two logs of one name")
        if len(self.used_names) + len(names) > MOST_LOGS:
            raise InvalidRecordError(f"more than {MOST_LOGS} logs")
        self.used_names.update(names)


_LOG_PATH = compile_lazily(r"((?:.*/)?logs/)([A-Za-z0-9_.-]+?)(?:\.gz)?")


def with_stored_path(text: str, logs: Logs, log_names: set[str]) -> str:
    """Correct a text that is the path of a log: only this process knows whether the log was
    compressed. Other texts are not changed."""
    match = _LOG_PATH.fullmatch(text) if "logs/" in text else None
    if not match or match[2] not in log_names:
        return text
    return f"{match[1]}{logs.find_log(match[2]).name}"
