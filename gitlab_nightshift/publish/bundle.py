"""The bundle as it comes from the work stage: hostile until git says the same.

An agent of the night may have written every byte of it. What counts is the tree that git makes of
base and patch; everything the bundle says of itself is compared with that.
"""

import os
import re
import stat
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.changes import MAX_CHANGE_BYTES, MAX_FILE_BYTES
from gitlab_nightshift.host.git import GitError
from gitlab_nightshift.host.paths import display
from gitlab_nightshift.host.repository import (
    ChangedFile,
    Repository,
    apply_patch,
    diff_files,
    diff_sizes,
    has_commit,
    tree_of,
)
from gitlab_nightshift.policy import NO_INCLUDES, ChangeView, CiFiles, gated, violations
from gitlab_nightshift.records import Bundle, Gated, Outcome, Proposal, read_record
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Settings

LARGEST_BUNDLE = 16 * 1024 * 1024
LARGEST_PATCH = 8 * 1024 * 1024
"""Bytes. A change of some hundred lines is far below."""
SHORTEST_LEAK = 12
"""Characters. Shorter values (``postgres``) are too often a word of the language."""
LATEST = timedelta(days=1)
MODES = {"000000", "100644", "100755"}
"""What git says of plain files, and of those that are gone."""


def read_bundle(folder: Path) -> tuple[Bundle, bytes]:
    """``bundle.json`` and ``change.patch`` of a folder.

    Raises ``E_CONFIG`` where there is none, ``E_PARSE_ERROR`` for one that cannot be read.
    """
    _check_file(folder / "bundle.json", LARGEST_BUNDLE)
    bundle = read_record(Bundle, folder / "bundle.json")
    if bundle.outcome is not Outcome.MR_READY:
        return bundle, b""
    _check_file(folder / "change.patch", LARGEST_PATCH)
    return bundle, (folder / "change.patch").read_bytes()


def _check_file(path: Path, most: int) -> None:
    try:
        found = os.lstat(path)
    except OSError as error:
        raise NightshiftError(Code.CONFIG, f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise NightshiftError(Code.PARSE_ERROR, f"{path}: is not a plain file")
    if found.st_size > most:
        text = f"{path}: has {found.st_size} bytes, at most {most} are read"
        raise NightshiftError(Code.PARSE_ERROR, text)


def check_bundle(
    bundle: Bundle, settings: Settings, *, base: str, target: str, now: datetime
) -> Proposal:
    """The proposal of a bundle that says the right things; ``base`` and ``target`` are ours.

    Raises ``E_PARSE_ERROR`` for values that cannot be, ``E_PUBLISH`` for another commit's bundle.
    """
    proposal = bundle.proposal
    if proposal is None:
        raise _unusable("it says MR_READY and holds no proposal")
    if not proposal.verdict.passed:
        raise _unusable("its change was not verified")
    if proposal.category not in settings.known_categories:
        raise _unusable("its category is not known")
    if not re.fullmatch(r"[\w.-]{1,100}", bundle.run_id, re.ASCII):
        raise _unusable("its run_id is none")
    _check_date(bundle.created_at, now)
    if bundle.base_sha != base:
        raise _refused(
            f"the bundle was made for another commit ({display(bundle.base_sha)[:12]}) than the "
            f"one checked out ({base[:12]})"
        )
    if bundle.target_branch != target:
        raise _refused(f"the bundle was made for another branch than {target}")
    return proposal


def _check_date(text: str, now: datetime) -> None:
    try:
        made = datetime.fromisoformat(text)
        late = made > now + LATEST
    except (ValueError, TypeError):  # TypeError: no zone
        raise _unusable("created_at is no time with a zone") from None
    if late or made.year < 2000:
        raise _unusable("created_at is no time of a night")


def rebuild(
    repository: Repository, proposal: Proposal, base: str, patch: bytes
) -> tuple[ChangedFile, ...]:
    """The files of the change as git sees them, after the tree was made again from base and patch.

    Raises ``E_PUBLISH`` where anything differs from what the bundle says. Paths that leave the tree
    or are git's own do not get past ``git apply`` (the repository protects HFS and NTFS names too).
    """
    if not has_commit(repository, base):
        raise _refused(f"the checkout does not hold the commit {base[:12]}")
    try:
        tree = apply_patch(repository, base, patch)
        before = tree_of(repository, base)
    except GitError:
        raise _refused("change.patch does not apply to its base: it was edited") from None
    if tree != proposal.change.tree_id:
        raise _refused("the bundle was edited: base and change.patch give another tree")
    if tree == before:
        raise _refused("the bundle changes nothing")
    sizes = diff_sizes(repository, before, tree)
    if max(sizes, default=0) > MAX_FILE_BYTES or sum(sizes) > MAX_CHANGE_BYTES:
        raise _refused(
            f"a file of the change has more than {MAX_FILE_BYTES} bytes, or all of it "
            f"more than {MAX_CHANGE_BYTES}"
        )
    files = diff_files(repository, before, tree)
    _compare(proposal, files)
    return files


def _compare(proposal: Proposal, files: Collection[ChangedFile]) -> None:
    change = proposal.change
    said = (sorted(map(display, change.files)), change.added, change.deleted)
    seen = (
        sorted(display(each.path) for each in files),
        sum(each.added for each in files),
        sum(each.deleted for each in files),
    )
    if said != seen:
        raise _refused("the bundle was edited: its list of files or lines is not git's")


def judge(
    files: Collection[ChangedFile],
    settings: Settings,
    recent_files: Collection[str],
    ci_config: str,
    ci_files: CiFiles = NO_INCLUDES,
) -> tuple[Gated, ...]:
    """Hold the change against the policy once more. Raises ``E_POLICY_DENY``.

    The result is what needs an approval or a second look.
    """
    paths = tuple(display(each.path) for each in files)
    lines = sum(each.added + each.deleted for each in files)
    found = [
        f"{display(each.path)} is a symbolic link or a submodule."
        for each in files
        if each.mode not in MODES
    ]
    view = ChangeView(paths, lines, ci_files)
    found += violations(view, settings, recent_files, ci_config)
    if found:
        raise NightshiftError(Code.POLICY_DENY, "not published: " + " ".join(found))
    return gated(view, settings, ci_config)


def refuse_secrets(patch: bytes, secrets: Collection[str]) -> None:
    """Raise ``E_POLICY_DENY`` where added lines hold a secret, in any form of the redactor.

    Files cannot be redacted.
    """
    added = b"\n".join(line[1:] for line in patch.split(b"\n") if line.startswith(b"+"))
    known = Redactor(tuple(secret for secret in secrets if len(secret) >= SHORTEST_LEAK))
    if known.holds_value(added):
        raise NightshiftError(
            Code.POLICY_DENY, "not published: the change holds the value of a secret variable"
        )


def _unusable(why: str) -> NightshiftError:
    return NightshiftError(Code.PARSE_ERROR, f"the bundle cannot be used: {why}")


def _refused(why: str) -> NightshiftError:
    return NightshiftError(Code.PUBLISH, f"not published: {why}")
