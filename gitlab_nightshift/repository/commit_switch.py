"""Checks out another commit in a clean checkout for a while, such as the head of a merge request's
branch.

The commit comes as a pack of the objects that the checkout lacks. So a job without the token can
check out what another job has fetched. No hook or filter runs, and no reference moves.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.repository.git import Git, GitError, find_paths_and_head
from gitlab_nightshift.repository.private_repository import Repository

LARGEST_PACK = 128 * 1024 * 1024
"""Bytes of a pack, which is passed to other jobs."""
# Without a filter, an LFS file stays a pointer: a filter would run a program, and could fetch.
_NO_FILTERS = ("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false")


def build_pack(repository: Repository, commit: str, base: str) -> bytes:
    """A pack with one commit and those of its files that the commit ``base`` does not have. Raises
    GitError, and ``E_CONFIG`` if the pack is larger than ``LARGEST_PACK``."""
    objects = repository.run(
        "rev-list", "--objects", "--max-count=1", "--in-commit-order", commit, f"^{base}^{{tree}}"
    )
    ids = b"".join(line.split(b" ")[0] + b"\n" for line in objects.splitlines())
    pack = repository.run("pack-objects", "--stdout", "-q", stdin=ids)
    if len(pack) > LARGEST_PACK:
        raise NightshiftError(
            Code.CONFIG, "the branch differs from this checkout by too many files"
        )
    return pack


@contextlib.contextmanager
def check_out_temporarily(git: Git, checkout: Path, commit: str, pack: bytes) -> Iterator[None]:
    """Check out ``commit`` in the clean checkout, and the former commit at the end of the block.

    ``git`` is an isolated one. Raises ``E_WORKSPACE_DIRTY`` if files are in the way, or if ``.git``
    was replaced during the block: no git runs in another one.
    """
    git_folder = _identify_git_folder(checkout)
    paths, former_commit = find_paths_and_head(git, checkout)
    shallow_file = paths.git_dir / "shallow"
    old_shallow = shallow_file.read_bytes() if shallow_file.exists() else None
    git.run("index-pack", "--stdin", cwd=checkout, stdin=pack)
    # The commit's parents are not in the pack. Git does not look for the parents of a shallow
    # boundary (its technical document "shallow").
    if commit.encode() not in (old_shallow or b"").split():
        _replace_file(shallow_file, (old_shallow or b"") + commit.encode() + b"\n")
    try:
        # An ignored file in the way is an error, and stays (git-checkout(1)).
        _switch(git, checkout, commit, "--no-overwrite-ignore")
        try:
            yield
        finally:
            if _identify_git_folder(checkout) != git_folder:
                text = f"{checkout}/.git was replaced during the run: clone anew"
                raise NightshiftError(Code.WORKSPACE_DIRTY, text)
            _switch(git, checkout, former_commit, "--force")  # tracked files may have changed
    finally:
        if _identify_git_folder(checkout) == git_folder:
            if old_shallow is None:
                shallow_file.unlink(missing_ok=True)
            else:
                _replace_file(shallow_file, old_shallow)


def _identify_git_folder(checkout: Path) -> tuple[int, int] | None:
    """Device and inode of ``.git``, None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        status = (checkout / ".git").lstat()
        return status.st_dev, status.st_ino
    return None


def _replace_file(file: Path, data: bytes) -> None:
    # Another git process may read the file at any time: replace it atomically (rename(2)).
    new_file = file.with_name(f"{file.name}.nightshift")
    new_file.write_bytes(data)
    new_file.replace(file)


def _switch(git: Git, checkout: Path, commit: str, *options: str) -> None:
    arguments = ("--quiet", "--detach", *options, commit)
    try:
        git.run("checkout", *arguments, cwd=checkout, settings=_NO_FILTERS)
    except GitError as error:
        raise NightshiftError(Code.WORKSPACE_DIRTY, f"commit {commit[:12]}: {error}") from None
