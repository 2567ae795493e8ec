"""A bundle as the process that read it (``repository/bundle_reader.py``) reports it.

Whoever made the bundle may control that process, so its report is checked here, and the tree is
made again here from names, modes and bytes. This process parses nothing of the patch.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, MaxLen
from pydantic import Field, ValidationError

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.events import Note
from gitlab_nightshift.pipeline_files import CiFiles
from gitlab_nightshift.printable_text import make_printable
from gitlab_nightshift.publish.bundle_check import (
    BundleFiles,
    build_publish_error,
    check_bundle,
    compare,
    judge,
)
from gitlab_nightshift.publish.publish_context import PublishContext
from gitlab_nightshift.records.products import Bundle, Proposal
from gitlab_nightshift.records.storage import (
    LARGEST_BUNDLE,
    build_adapter,
    build_record,
    build_record_error,
)
from gitlab_nightshift.redaction.patch_check import refuse_secrets
from gitlab_nightshift.repository.blobs import make_tree, write_blob
from gitlab_nightshift.repository.bundle_reader import (
    RebuildTask,
    build_task_data,
    encode_attributes,
)
from gitlab_nightshift.repository.capture import MAX_CHANGE_BYTES, MAX_FILE_BYTES
from gitlab_nightshift.repository.git import GitError, build_isolated_git
from gitlab_nightshift.repository.private_repository import (
    DiffFile,
    Relation,
    Repository,
    create_private_repository,
)
from gitlab_nightshift.sandbox.process_places import list_unheld
from gitlab_nightshift.sandbox.process_table import BUNDLE_READER
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.system.process import ProcessLimits
from gitlab_nightshift.system.stage_process import StageFailedError, run_stage

LARGEST_LINE = 3 * LARGEST_BUNDLE
"""Bytes of an answer without the files; escapes make JSON longer."""

RawPath = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})+$"), MaxLen(8192)]
Mode = Annotated[str, Field(pattern=r"^[0-7]{6}$")]
Id = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Count = Annotated[int, Ge(0)]
Words = Annotated[str, MaxLen(500)]
Row = tuple[RawPath, Literal["A", "M", "D", "T"], Mode, Id, Count, Count]


@dataclass(frozen=True)
class ReportedChange:
    """A change as the other process reports it: rows of path (hex), status, mode, blob, lines;
    ``settings`` are files with other settings of tools, each with what differs there."""

    tree: Id
    files: Annotated[tuple[Row, ...], MaxLen(10_000)]
    sizes: Annotated[tuple[Count, ...], MaxLen(10_000)]
    settings: Annotated[tuple[tuple[RawPath, Words], ...], MaxLen(10_000)]


@dataclass(frozen=True)
class BaseReport:
    """What the other process reports before it reads the bundle."""

    ci: tuple[str, ...]


@dataclass(frozen=True)
class RebuiltBundle:
    """A bundle that could be read, and its change; ``refused`` is why there is none.

    ``blobs`` are the bytes of new files. ``ci_files`` does not come from the bundle;
    ``tool_settings`` is what was read of its files: what decides by names alone is asked besides.
    """

    bundle: Bundle
    ci_files: CiFiles
    refused: str = ""
    tree: str = ""
    files: tuple[DiffFile, ...] = ()
    ids: tuple[str, ...] = ()
    blobs: tuple[bytes, ...] = field(default=(), repr=False)
    tool_settings: Mapping[str, str] = field(default_factory=dict)


def examine(files: BundleFiles, context: PublishContext) -> RebuiltBundle:
    """Have a bundle read and its change made again.

    Raises ``E_PARSE_ERROR`` for a bundle that cannot be read, ``E_PUBLISH`` where the other process
    dies, is ended or breaks the rules.
    """
    patch = files.patch if isinstance(files.patch, bytes) else b""
    with _open_task(context, (len(files.bundle), len(patch))) as task:
        return read_answer(run_task(task, files.bundle + patch), files.place)


def read_answer(out: bytes, place: str) -> RebuiltBundle:
    """The three parts of an answer. Raises what :func:`examine` raises."""
    first, _, rest = out.partition(b"\n")
    second, _, blobs = rest.partition(b"\n")
    base, answer = _validate_value(BaseReport, _parse_line(first)), _parse_line(second)
    if "unreadable" in answer:
        raise build_record_error(Bundle, place, format_path(str(answer["unreadable"]))[:200])
    bundle = build_record(Bundle, answer.get("bundle"), place)
    known = RebuiltBundle(bundle, CiFiles(base.ci))
    if "change" not in answer:
        return _with_refusal(known, answer)
    return _with_change(known, _validate_value(ReportedChange, answer["change"]), blobs)


def find_relation(
    commit: str, patch: bytes, repository: Repository, context: PublishContext
) -> Relation:
    """How a patch relates to a commit of ``repository``. Raises ``E_PUBLISH``."""
    with _open_task(context, (0, len(patch)), commit, (repository.folder / "objects",)) as task:
        said = _parse_line(run_task(task, patch)).get("relation")
    if said not in list(map(str, Relation)):
        raise _build_reader_error("its answer is invalid")
    return Relation(said)


def judge_bundle(rebuilt: RebuiltBundle, patch: bytes, context: PublishContext) -> Proposal:
    """The proposal with what has to be approved. Raises NightshiftError where a rule is broken."""
    proposal = check_bundle(
        rebuilt.bundle,
        context.session.settings,
        base=context.base,
        target=context.target,
        now=datetime.now(UTC),
    )
    if rebuilt.refused:
        raise build_publish_error(rebuilt.refused)
    compare(proposal, rebuilt.tree, rebuilt.files)
    config = context.session.job.ci_config_path
    gates = judge(
        rebuilt.tree,
        rebuilt.files,
        rebuilt.tool_settings,
        context.session.settings,
        context.recent_files,
        config,
        rebuilt.ci_files,
    )
    refuse_secrets(patch, context.session.redact.values)
    for what in list_unheld():
        context.session.emit(
            Note(f"this kernel does not confine the process that reads the bundle: {what}")
        )
    return replace(proposal, gates=gates)


def rebuild_repository(rebuilt: RebuiltBundle, context: PublishContext, folder: Path) -> Repository:
    """A repository with the change. Raises ``E_PUBLISH``.

    It is made once the other process has ended, with a home and settings of its own. Its tree
    differs from the base in exactly the files that were judged, whatever the other process said;
    git leaves out names of its own, and a blob's id comes from its bytes.
    """
    git = build_isolated_git(folder / "home", context.session.git.env["PATH"])
    source = context.source
    place = folder / "repository.git"
    repository = create_private_repository(git, place, source.parts, source.config)
    make_change(repository, rebuilt, context.base)
    return repository


def make_change(repository: Repository, rebuilt: RebuiltBundle, base: str) -> None:
    """Make the reported tree in ``repository``. Raises ``E_PUBLISH``."""
    for blob in rebuilt.blobs:
        write_blob(repository, blob, len(base))
    pairs = zip(rebuilt.files, rebuilt.ids, strict=True)
    try:
        tree = make_tree(repository, base, [(file.mode, id_, file.path) for file, id_ in pairs])
    except (GitError, ValueError) as error:
        raise _build_reader_error(format_path(str(error))[:200]) from None
    if tree != rebuilt.tree:
        raise _build_reader_error("its files give a different tree")


@contextmanager
def _open_task(
    context: PublishContext, sizes: tuple[int, int], onto: str = "", more: tuple[Path, ...] = ()
) -> Iterator[RebuildTask]:
    """The other process's task, with a folder that is removed at the end of the block."""
    parts = context.source.parts
    with tempfile.TemporaryDirectory(prefix="reader-", dir=context.session.private) as folder:
        yield RebuildTask(
            folder=folder,
            objects=tuple(map(str, (*more, *parts.objects))),
            object_format=parts.object_format,
            attributes=encode_attributes(parts.attributes),
            config=context.source.config,
            base=context.base,
            ci_config=context.session.job.ci_config_path,
            search_path=context.session.git.env["PATH"],
            sizes=sizes,
            largest=(LARGEST_LINE, MAX_FILE_BYTES, MAX_CHANGE_BYTES),
            onto=onto,
        )


def run_task(task: RebuildTask, stdin: bytes) -> bytes:
    """The other process's answer. Raises ``E_PUBLISH``."""
    env = {"PATH": task.search_path, "LANG": "C.UTF-8"}
    limits = ProcessLimits(
        timeout_s=BUNDLE_READER.wall_s, output_bytes=LARGEST_LINE + MAX_CHANGE_BYTES + 1_000_000
    )
    try:
        places = {"own": task.folder, "objects": task.objects}
        return run_stage(BUNDLE_READER, build_task_data(task), env, stdin, limits, places)
    except StageFailedError as error:
        raise _build_reader_error(f"it {error}") from None


def _parse_line(line: bytes) -> dict[str, Any]:
    if len(line) > LARGEST_LINE:
        raise _build_reader_error("its answer is too long")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise _build_reader_error("its answer is invalid") from None
    if not isinstance(value, dict):
        raise _build_reader_error("its answer is invalid")
    return value


def _validate_value(kind: Any, value: Any) -> Any:
    try:
        return build_adapter(kind).validate_python(value)
    except ValidationError:
        raise _build_reader_error("its answer is invalid") from None


def _with_refusal(known: RebuiltBundle, answer: dict[str, Any]) -> RebuiltBundle:
    why = format_path(str(answer.get("refused", "")))[:500]
    return replace(known, refused=why)


def _with_change(known: RebuiltBundle, reported: ReportedChange, data: bytes) -> RebuiltBundle:
    if len(data) != sum(reported.sizes):
        raise _build_reader_error("its files are incomplete")
    blobs, at = [], 0
    for size in reported.sizes:
        blobs.append(data[at : at + size])
        at += size
    return replace(
        known,
        tree=reported.tree,
        files=tuple(_parse_file(row) for row in reported.files),
        ids=tuple(row[3] for row in reported.files),
        blobs=tuple(blobs),
        tool_settings={
            format_path(_parse_path(path)): make_printable(what) for path, what in reported.settings
        },
    )


def _parse_file(row: Row) -> DiffFile:
    path, status, mode, _, added, deleted = row
    return DiffFile(_parse_path(path), status, mode, added, deleted)


def _parse_path(path: RawPath) -> str:
    raw = bytes.fromhex(path)
    if b"\0" in raw:
        raise _build_reader_error("a path is invalid")
    return os.fsdecode(raw)


def _build_reader_error(why: str) -> NightshiftError:
    return build_publish_error(f"the process that reads the bundle failed: {why}")
