"""Rebuilds a delegation's change on the real base; another process parses the patch."""

import tempfile
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.repository import git as git_verbs
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.delegated_repository import DelegationSource
from gitlab_nightshift.repository.private_repository import (
    build_diff_patch,
    create_private_repository,
    list_diff_files,
    read_parts,
)
from gitlab_nightshift.repository.rebuilt_change import (
    ReaderInput,
    RebuiltBundle,
    make_change,
    rebuild_patch,
)
from gitlab_nightshift.sandbox.process_places import list_unenforceable
from gitlab_nightshift.stages.work.delegation.delegation_context import DelegationContext
from gitlab_nightshift.stages.work.delegation.packaged_change import RebasedChange


def remake(
    context: DelegationContext, source: DelegationSource, base: str, patch: bytes, *, local: bool
) -> tuple[RebasedChange, RebuiltBundle]:
    """The change as a tree on ``base``, and the other process's report on it.

    ``local``: it was made on top of uncommitted changes. Raises NightshiftError ``E_APPLY_FAILED``,
    or ``E_PUBLISH`` if the other process breaks the rules.
    """
    config = git_verbs.read_conversion_config(source.git, source.top)
    parts, path = read_parts(source.paths), source.git.env["PATH"]
    reading = ReaderInput(parts, config, context.private, path, context.job.ci_config_path)
    inputs = rebuild_patch(reading, base, patch)
    if inputs.refused:
        why = "it depends on uncommitted changes" if local else inputs.refused
        text = f"the change does not apply to {base[:12]}: {why}"
        raise NightshiftError(Code.APPLY_FAILED, text)
    for what in list_unenforceable():
        context.emit(Note(f"this kernel does not confine the process that reads the patch: {what}"))
    place = Path(tempfile.mkdtemp(prefix="package-", dir=context.private))
    repository = create_private_repository(source.git, place / "repository.git", parts, config)
    make_change(repository, inputs, base)
    trees = (repository, base, inputs.tree)
    captured = CapturedChange(inputs.tree, list_diff_files(*trees), build_diff_patch(*trees))
    return RebasedChange(repository, base, captured), inputs
