"""Put a clean checkout on another commit for a while: the head of a merge request's branch.

The commit comes as a pack of what the checkout lacks: one job fetches it with the token, and a job
without one can check it out too. No hook or filter runs, and no reference of the checkout moves.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.git import Git, GitError, find_paths_and_head
from gitlab_nightshift.repository.private_repository import Repository

LARGEST_PACK = 128 * 1024 * 1024
"""Bytes."""
_NO_FILTERS = ("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false")


def build_pack(repository: Repository, commit: str, base: str) -> bytes:
    """A commit and the files of it that ``base`` does not have, as a pack.

    Both are commits of the repository. Raises GitError, and ``E_CONFIG`` for a pack that is too
    large to hand on.
    """
    listed = repository.run(
        "rev-list", "--objects", "--max-count=1", "--in-commit-order", commit, f"^{base}^{{tree}}"
    )
    names = b"".join(line.split(b" ")[0] + b"\n" for line in listed.splitlines())
    pack = repository.run("pack-objects", "--stdout", "-q", stdin=names)
    if len(pack) > LARGEST_PACK:
        raise NightshiftError(
            Code.CONFIG, "the branch differs from this checkout by too many files"
        )
    return pack


@contextlib.contextmanager
def check_out_temporarily(git: Git, checkout: Path, commit: str, pack: bytes) -> Iterator[None]:
    """Check ``commit`` out in the clean checkout, and at the end of the block the former one.

    ``git`` is a pristine one. Raises ``E_WORKSPACE_DIRTY`` where files are in the way, or another
    ``.git`` than before stands there at the end: no git runs in that.
    """
    real = _identify(checkout)
    parts, before = find_paths_and_head(git, checkout)
    boundary = parts.git_dir / "shallow"
    known = boundary.read_bytes() if boundary.exists() else None
    git.run("index-pack", "--stdin", cwd=checkout, stdin=pack)
    if commit.encode() not in (known or b"").split():  # its parents may be missing
        _write(boundary, (known or b"") + commit.encode() + b"\n")
    try:
        _move(git, checkout, commit, "--no-overwrite-ignore")
        try:
            yield
        finally:
            if _identify(checkout) != real:
                text = f"{checkout}/.git is not the one that was there before: clone anew"
                raise NightshiftError(Code.WORKSPACE_DIRTY, text)
            _move(git, checkout, before, "--force")
    finally:
        if _identify(checkout) == real:
            _restore_shallow(boundary, known)


def _restore_shallow(boundary: Path, known: bytes | None) -> None:
    if known is None:
        boundary.unlink(missing_ok=True)
    else:
        _write(boundary, known)


def _identify(checkout: Path) -> tuple[int, int] | None:
    """What stands as ``.git``, None for nothing."""
    with contextlib.suppress(FileNotFoundError):
        status = (checkout / ".git").lstat()
        return status.st_dev, status.st_ino
    return None


def _write(file: Path, data: bytes) -> None:
    part = file.with_name(f"{file.name}.nightshift")
    part.write_bytes(data)
    part.replace(file)


def _move(git: Git, checkout: Path, commit: str, *how: str) -> None:
    words = ("--quiet", "--detach", *how, commit)
    try:
        git.run("checkout", *words, cwd=checkout, settings=_NO_FILTERS)
    except GitError as error:
        raise NightshiftError(Code.WORKSPACE_DIRTY, f"commit {commit[:12]}: {error}") from None
