"""Checks the bundle from the work stage: an agent of the night may have written every byte of it.

What counts is the tree that git makes of base and patch, in a process of its own
(``repository/rebuilt_change.py``). Everything that the bundle claims is compared with that tree.
"""

import errno
import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.policy.change_rules import find_violations
from gitlab_nightshift.policy.claimed_categories import find_invalid_field
from gitlab_nightshift.policy.write_gate import list_gated_files
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.records.products import Bundle, Proposal
from gitlab_nightshift.records.storage import LARGEST_BUNDLE, LARGEST_PATCH
from gitlab_nightshift.records.verdicts import GatedFile
from gitlab_nightshift.redaction.redactor import refuse_secrets
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.repository.capture import compute_size
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import (
    PLAIN_MODES,
    DiffFile,
    Relation,
    Repository,
    create_private_repository,
)
from gitlab_nightshift.repository.rebuilt_change import (
    ReaderInput,
    RebuiltBundle,
    build_reader_error,
    open_task,
    parse_line,
    read_answer,
    run_task,
    write_change,
)
from gitlab_nightshift.sandbox.process_places import list_unenforceable
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.file_names import format_path

if TYPE_CHECKING:  # a delegation's last process also checks a bundle, but loads no GitLab client
    from gitlab_nightshift.stages.publish.publish_context import PublishContext

MAX_CLOCK_SKEW = timedelta(days=1)
"""How far in the future ``created_at`` may be: it comes from another machine's clock."""


@dataclass(frozen=True)
class BundleFiles:
    """The bytes of ``bundle.json`` (at ``path``) and of ``change.patch``, or the error from reading
    the patch."""

    path: str
    bundle: bytes
    patch: bytes | NightshiftError


def read_bundle_files(folder: Path) -> BundleFiles:
    """Read ``bundle.json`` and ``change.patch`` of a folder, unparsed.

    Raises ``E_CONFIG`` without ``bundle.json``, ``E_PARSE_ERROR`` if it is not a regular file or is
    too large.
    """
    bundle = _read_file(folder / "bundle.json", LARGEST_BUNDLE)
    try:
        patch: bytes | NightshiftError = _read_file(folder / "change.patch", LARGEST_PATCH)
    except NightshiftError as error:
        patch = error
    return BundleFiles(str(folder / "bundle.json"), bundle, patch)


def _read_file(path: Path, most: int) -> bytes:
    try:
        # An agent may plant a link, or a FIFO, which blocks without O_NONBLOCK (fifo(7)).
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NightshiftError(Code.PARSE_ERROR, f"{path}: is not a plain file")
            data = file.read(most + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link, by O_NOFOLLOW (open(2))
            raise NightshiftError(Code.PARSE_ERROR, f"{path}: is not a plain file") from None
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise NightshiftError(Code.PARSE_ERROR, f"{path}: at most {most} bytes are read")
    return data


def check_bundle(
    bundle: Bundle, settings: Settings, *, base: str, target: str, now: datetime
) -> Proposal:
    """The proposal of a bundle with plausible values, for this commit and target branch.

    Raises ``E_PARSE_ERROR`` for impossible values, ``E_PUBLISH`` for another commit's bundle.
    """
    proposal = bundle.proposal
    if proposal is None:
        raise _build_unusable_error("it says MR_READY but holds no proposal")
    if not proposal.verdict.passed:
        raise _build_unusable_error("its change was not verified")
    refuse_unknown_category(bundle, settings)
    if not re.fullmatch(r"[\w.-]{1,100}", bundle.run_id, re.ASCII):
        raise _build_unusable_error("its run_id is invalid")
    _check_date(bundle.created_at, now)
    if bundle.base_sha != base:
        raise build_publish_error(
            f"the bundle was made for another commit ({format_path(bundle.base_sha)[:12]}) than"
            f" the one checked out ({base[:12]})"
        )
    if bundle.target_branch != target:
        raise build_publish_error(f"the bundle was made for a branch other than {target}")
    return proposal


def refuse_unknown_category(bundle: Bundle, settings: Settings) -> None:
    """Raise ``E_PARSE_ERROR`` for a category that the settings do not know."""
    known = settings.known_categories
    if field := find_invalid_field(bundle, known, known):
        raise _build_unusable_error(f"its category is unknown ({field})")


def _check_date(text: str, now: datetime) -> None:
    try:
        created = datetime.fromisoformat(text)
        in_future = created > now + MAX_CLOCK_SKEW
    except (ValueError, TypeError):  # TypeError: no zone
        raise _build_unusable_error("created_at is not a time with a time zone") from None
    if in_future or created.year < 2000:  # 1970: the machine's clock was not set
        raise _build_unusable_error("created_at is not a time when a night can have run")


def check_claims(proposal: Proposal, tree: str, files: Collection[DiffFile]) -> None:
    """Compare the bundle's claims with what git made of base and patch.

    Raises ``E_PUBLISH`` if anything differs.
    """
    change = proposal.change
    if tree != change.tree_id:
        raise build_publish_error("the bundle was edited: base plus change.patch is another tree")
    if not files:
        raise build_publish_error("the bundle changes nothing")
    claimed = (sorted(map(format_path, change.files)), change.added, change.deleted)
    actual = compute_size(files)
    if claimed != (sorted(actual.files), actual.added, actual.deleted):
        raise build_publish_error("the bundle was edited: its list of files or lines is not git's")


def check_policy(
    files: Collection[DiffFile],
    tool_settings: Mapping[str, str],
    settings: Settings,
    recent_files: Collection[str],
    ci_config: str,
    ci_files: CiFiles = NO_INCLUDES,
) -> tuple[GatedFile, ...]:
    """The files that need an approval or a second look. Raises ``E_POLICY_DENY`` if the change
    breaks the policy, which work has already checked."""
    violations = [
        f"{format_path(file.path)} is a symbolic link or a submodule."
        for file in files
        if file.mode not in PLAIN_MODES
    ]
    change = compute_size(files)
    violations += find_violations(
        change, tool_settings, settings, recent_files, ci_config, ci_files
    )
    if violations:
        raise NightshiftError(Code.POLICY_DENY, "not published: " + " ".join(violations))
    return list_gated_files(change, settings, ci_config, ci_files)


def _build_unusable_error(why: str) -> NightshiftError:
    return NightshiftError(Code.PARSE_ERROR, f"the bundle cannot be used: {why}")


def build_publish_error(why: str) -> NightshiftError:
    """The error for a bundle that is not published."""
    return NightshiftError(Code.PUBLISH, f"not published: {why}")


# --- the bundle in a separate process -------------------------------------------------------------


def examine(files: BundleFiles, context: "PublishContext") -> RebuiltBundle:
    """Have a bundle parsed and its change rebuilt, both in a process of its own.

    Raises ``E_PARSE_ERROR`` for an unreadable bundle, ``E_PUBLISH`` if the other process dies, is
    killed or breaks the rules.
    """
    # A bundle without a change has no patch. publish() raises the error if this one needs it.
    patch = files.patch if isinstance(files.patch, bytes) else b""
    sizes = (len(files.bundle), len(patch))
    with open_task(_build_reader_input(context), context.base, sizes) as task:
        return read_answer(run_task(task, files.bundle + patch), files.path)


def find_relation(
    commit: str, patch: bytes, repository: Repository, context: "PublishContext"
) -> Relation:
    """How a patch relates to a commit of ``repository``. Raises ``E_PUBLISH``."""
    reader_input = _build_reader_input(context, repository.folder / "objects")
    with open_task(reader_input, context.base, (0, len(patch)), commit) as task:
        relation = parse_line(run_task(task, patch)).get("relation")
    if relation not in list(map(str, Relation)):
        raise build_reader_error("its answer is invalid")
    return Relation(relation)


def judge_bundle(rebuilt: RebuiltBundle, patch: bytes, context: "PublishContext") -> Proposal:
    """The proposal, with the files that need an approval or a second look. Raises NightshiftError
    if the bundle's claims are false, or the change breaks a rule."""
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
    for gap in list_unenforceable():
        context.session.emit(
            Note(f"this kernel does not confine the process that reads the bundle: {gap}")
        )
    return replace(proposal, gates=gates)


def rebuild_repository(
    rebuilt: RebuiltBundle, context: "PublishContext", folder: Path
) -> Repository:
    """Create a repository with the change, with its own home and settings, after the other process
    has ended. Raises ``E_PUBLISH``.

    Whatever that process reported, this tree differs from the base in exactly the judged files: git
    refuses names such as ``.git``, and computes a blob's id from its bytes.
    """
    git = build_isolated_git(folder / "home", context.session.git.env["PATH"])
    source, path = context.source, folder / "repository.git"
    repository = create_private_repository(git, path, source.parts, source.config)
    write_change(repository, rebuilt, context.base)
    return repository


def _build_reader_input(context: "PublishContext", *object_folders: Path) -> ReaderInput:
    """What the other process may read: the checkout's objects, and these."""
    parts = context.source.parts
    return ReaderInput(
        replace(parts, objects=(*object_folders, *parts.objects)),
        context.source.config,
        context.session.private,
        context.session.git.env["PATH"],
        context.session.job.ci_config_path,
    )
