"""Starts the process that reads a bundle (``bundle_reader.py``), and writes the change that it
reports.

The bundle's author may control that process, so this module validates its report, and writes the
tree from names, modes and bytes. It parses no byte of the patch.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.codec import (
    LARGEST_INT,
    Between,
    InvalidRecordError,
    Length,
    Pattern,
    decode_json,
    make_record,
)
from gitlab_nightshift.records.products import Bundle, Outcome
from gitlab_nightshift.records.storage import (
    LARGEST_BUNDLE,
    build_record,
    build_record_error,
    to_json,
)
from gitlab_nightshift.registry.pipeline_files import CiFiles
from gitlab_nightshift.repository.bundle_reader import RebuildTask, build_task_data
from gitlab_nightshift.repository.capture import MAX_CHANGE_BYTES, MAX_FILE_BYTES
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.private_repository import (
    DiffFile,
    Repository,
    RepositoryParts,
    share_reader,
    write_blob,
)
from gitlab_nightshift.repository.tree_objects import write_checked_tree
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.sandbox.process_table import BUNDLE_READER
from gitlab_nightshift.sandbox.stage_process import StageFailedError, run_stage
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.text.printable_text import make_printable

LARGEST_LINE = 3 * LARGEST_BUNDLE
"""Bytes of a line of the answer: JSON writes é, two bytes in the bundle, as an escape of six."""

HexPath = Annotated[str, Pattern("(?:[0-9a-f]{2})+"), Length(8192)]
Mode = Annotated[str, Pattern("[0-7]{6}")]
ObjectId = Annotated[str, Pattern("[0-9a-f]{40}|[0-9a-f]{64}")]
Count = Annotated[int, Between(0, LARGEST_INT)]
ShortText = Annotated[str, Length(500)]
ReportedFile = tuple[HexPath, Literal["A", "M", "D", "T"], Mode, ObjectId, Count, Count]


@dataclass(frozen=True)
class ReportedChange:
    """A change as the reader reports it. ``files`` have path (hex), status, mode, blob, added and
    deleted lines; ``sizes`` are the bytes of each new blob; ``settings`` are the files with changed
    tool settings, each with what differs."""

    tree: ObjectId
    files: Annotated[tuple[ReportedFile, ...], Length(10_000)]
    sizes: Annotated[tuple[Count, ...], Length(10_000)]
    settings: Annotated[tuple[tuple[HexPath, ShortText], ...], Length(10_000)]


@dataclass(frozen=True)
class BaseReport:
    """The reader's report before it reads the bundle."""

    ci: tuple[str, ...]


@dataclass(frozen=True)
class RebuiltBundle:
    """A bundle that could be read, and its change; if there is none, ``refused`` says why.

    ``blobs`` are the bytes of new files. ``ci_files`` were read from the base, before the bundle.
    ``tool_settings`` may be a lie of the bundle's author, so checks of paths must not rely on it.
    """

    bundle: Bundle
    ci_files: CiFiles
    refused: str = ""
    tree: str = ""
    files: tuple[DiffFile, ...] = ()
    blobs: tuple[bytes, ...] = field(default=(), repr=False)
    tool_settings: Mapping[str, str] = field(default_factory=dict)


def read_answer(out: bytes, bundle_path: str) -> RebuiltBundle:
    """Parse the three parts of an answer. Raises ``E_PARSE_ERROR`` for an unreadable bundle, and
    ``E_PUBLISH`` for an invalid answer."""
    base_line, _, after_base = out.partition(b"\n")
    bundle_line, _, blobs = after_base.partition(b"\n")
    base, report = _validate_value(BaseReport, parse_line(base_line)), parse_line(bundle_line)
    if "unreadable" in report:
        raise build_record_error(Bundle, bundle_path, format_path(str(report["unreadable"]))[:200])
    bundle = build_record(Bundle, report.get("bundle"), bundle_path)
    rebuilt = RebuiltBundle(bundle, CiFiles(base.ci))
    if "change" not in report:
        return replace(rebuilt, refused=format_path(str(report.get("refused", "")))[:500])
    return _with_change(rebuilt, _validate_value(ReportedChange, report["change"]), blobs)


def write_change(repository: Repository, rebuilt: RebuiltBundle, base: str) -> None:
    """Write the reported tree, made of its blobs and ``base``. Raises ``E_PUBLISH``."""
    for blob in rebuilt.blobs:
        write_blob(repository, blob, len(base))
    entries = [(file.mode, file.blob, file.path) for file in rebuilt.files]
    try:
        with share_reader(repository) as shared:
            tree = write_checked_tree(shared, base, entries)
    except (GitError, ValueError) as error:
        raise build_reader_error(format_path(str(error))[:200]) from None
    if tree != rebuilt.tree:
        raise build_reader_error("its files give a different tree")


@dataclass(frozen=True)
class ReaderInput:
    """The reader's input besides the bundle: the repository's ``parts``, its ``config`` (the
    settings of ``git.CONVERSION_KEYS``), and ``folder``, in which the reader gets its folder."""

    parts: RepositoryParts
    config: Mapping[str, str]
    folder: Path
    search_path: str
    ci_config: str = ""


def rebuild_patch(reader_input: ReaderInput, base: str, patch: bytes) -> RebuiltBundle:
    """Have the reader apply a patch without a bundle to ``base``. Raises ``E_PUBLISH``."""
    bundle = _build_bundle(base)
    with open_task(reader_input, base, (len(bundle), len(patch))) as task:
        return read_answer(run_task(task, bundle + patch), "the bundle")


@contextmanager
def open_task(
    reader_input: ReaderInput, base: str, sizes: tuple[int, int], onto: str = ""
) -> Iterator[RebuildTask]:
    """The reader's task, with a folder that is removed at the end of the block; ``sizes`` and
    ``onto`` are those of ``RebuildTask``."""
    with tempfile.TemporaryDirectory(prefix="reader-", dir=reader_input.folder) as folder:
        yield RebuildTask(
            folder=Path(folder),
            objects=reader_input.parts.objects,
            object_format=reader_input.parts.object_format,
            attributes=reader_input.parts.attributes,
            config=reader_input.config,
            base=base,
            ci_config=reader_input.ci_config,
            search_path=reader_input.search_path,
            sizes=sizes,
            largest=(LARGEST_LINE, MAX_FILE_BYTES, MAX_CHANGE_BYTES),
            onto=onto,
        )


def _build_bundle(base: str) -> bytes:
    """The bundle that the reader expects around a patch."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return to_json(Bundle("", now, base, "", Outcome.MR_READY)).encode()


def run_task(task: RebuildTask, stdin: bytes) -> bytes:
    """Run the reader; returns its answer. Raises ``E_PUBLISH``."""
    # Other variables may be secrets, and the bundle's author may control the reader.
    env = {"PATH": task.search_path, "LANG": "C.UTF-8"}
    limits = ProcessLimits(
        timeout_s=BUNDLE_READER.wall_s, output_bytes=LARGEST_LINE + MAX_CHANGE_BYTES + 1_000_000
    )
    try:
        places = {"own": str(task.folder), "objects": list(map(str, task.objects))}
        return run_stage(BUNDLE_READER, build_task_data(task), env, stdin, limits, places)
    except StageFailedError as error:
        raise build_reader_error(f"it {error}") from None


def parse_line(line: bytes) -> dict[str, Any]:
    """Parse one line of an answer. Raises ``E_PUBLISH``."""
    if len(line) > LARGEST_LINE:
        raise build_reader_error("its answer is too long")
    try:
        value = decode_json(line)
    except InvalidRecordError:
        raise build_reader_error("its answer is invalid") from None
    if not isinstance(value, dict):
        raise build_reader_error("its answer is invalid")
    return value


def _validate_value(kind: Any, value: Any) -> Any:
    try:
        return make_record(kind, value)
    except InvalidRecordError:
        raise build_reader_error("its answer is invalid") from None


def _with_change(rebuilt: RebuiltBundle, reported: ReportedChange, data: bytes) -> RebuiltBundle:
    if len(data) != sum(reported.sizes):
        raise build_reader_error("its files are incomplete")
    blobs, at = [], 0
    for size in reported.sizes:
        blobs.append(data[at : at + size])
        at += size
    return replace(
        rebuilt,
        tree=reported.tree,
        files=tuple(map(_parse_file, reported.files)),
        blobs=tuple(blobs),
        tool_settings={
            format_path(_parse_path(path)): make_printable(what) for path, what in reported.settings
        },
    )


def _parse_file(file: ReportedFile) -> DiffFile:
    path, status, mode, blob, added, deleted = file
    return DiffFile(_parse_path(path), status, mode, blob, added, deleted)


def _parse_path(path: HexPath) -> str:
    decoded = bytes.fromhex(path)
    if b"\0" in decoded:
        raise build_reader_error("a path is invalid")
    return os.fsdecode(decoded)


def build_reader_error(why: str) -> NightshiftError:
    """The error for a reader that failed or gave an invalid answer."""
    text = f"not published: the process that reads the bundle failed: {why}"
    return NightshiftError(Code.PUBLISH, text)
