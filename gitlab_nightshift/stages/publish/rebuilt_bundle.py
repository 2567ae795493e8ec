"""Has a bundle parsed by a separate process, and judges what that reports
(``repository/rebuilt_change.py``).
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Proposal
from gitlab_nightshift.redaction.redactor import refuse_secrets
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import (
    Relation,
    Repository,
    create_private_repository,
)
from gitlab_nightshift.repository.rebuilt_change import (
    ReaderInput,
    RebuiltBundle,
    build_reader_error,
    make_change,
    open_task,
    parse_line,
    read_answer,
    run_task,
)
from gitlab_nightshift.sandbox.process_places import list_unenforceable
from gitlab_nightshift.stages.publish.bundle_check import (
    BundleFiles,
    build_publish_error,
    check_bundle,
    check_claims,
    check_policy,
)
from gitlab_nightshift.stages.publish.publish_context import PublishContext


def examine(files: BundleFiles, context: PublishContext) -> RebuiltBundle:
    """Have a bundle parsed and its change rebuilt.

    Raises ``E_PARSE_ERROR`` for an unreadable bundle, ``E_PUBLISH`` if the other process dies, is
    killed or breaks the rules.
    """
    patch = files.patch if isinstance(files.patch, bytes) else b""
    sizes = (len(files.bundle), len(patch))
    with open_task(_build_reader_input(context), context.base, sizes) as task:
        return read_answer(run_task(task, files.bundle + patch), files.path)


def find_relation(
    commit: str, patch: bytes, repository: Repository, context: PublishContext
) -> Relation:
    """How a patch relates to a commit of ``repository``. Raises ``E_PUBLISH``."""
    reader_input = _build_reader_input(context, repository.folder / "objects")
    with open_task(reader_input, context.base, (0, len(patch)), commit) as task:
        relation = parse_line(run_task(task, patch)).get("relation")
    if relation not in list(map(str, Relation)):
        raise build_reader_error("its answer is invalid")
    return Relation(relation)


def judge_bundle(rebuilt: RebuiltBundle, patch: bytes, context: PublishContext) -> Proposal:
    """The proposal with the files to approve. Raises NightshiftError if a rule is broken."""
    proposal = check_bundle(
        rebuilt.bundle,
        context.session.settings,
        base=context.base,
        target=context.target,
        now=datetime.now(UTC),
    )
    if rebuilt.refused:
        raise build_publish_error(rebuilt.refused)
    check_claims(proposal, rebuilt.tree, rebuilt.files)
    config = context.session.job.ci_config_path
    gates = check_policy(
        rebuilt.files,
        rebuilt.tool_settings,
        context.session.settings,
        context.recent_files,
        config,
        rebuilt.ci_files,
    )
    refuse_secrets(patch, context.session.redact.values)
    for what in list_unenforceable():
        context.session.emit(
            Note(f"this kernel does not confine the process that reads the bundle: {what}")
        )
    return replace(proposal, gates=gates)


def rebuild_repository(rebuilt: RebuiltBundle, context: PublishContext, folder: Path) -> Repository:
    """A repository with the change. Raises ``E_PUBLISH``.

    It is made after the other process has ended, with its own home and settings. Whatever that
    process reported, its tree differs from the base in exactly the judged files: git refuses its
    own names, and a blob's id is computed from its bytes.
    """
    git = build_isolated_git(folder / "home", context.session.git.env["PATH"])
    source, path = context.source, folder / "repository.git"
    repository = create_private_repository(git, path, source.parts, source.config)
    make_change(repository, rebuilt, context.base)
    return repository


def _build_reader_input(context: PublishContext, *more: Path) -> ReaderInput:
    """Where the other process reads, with ``more`` objects."""
    parts = context.source.parts
    return ReaderInput(
        replace(parts, objects=(*more, *parts.objects)),
        context.source.config,
        context.session.private,
        context.session.git.env["PATH"],
        context.session.job.ci_config_path,
    )
