"""The stand-in's repositories and what comes of them: pushes, files, commits, labels, jobs."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from gitlab_nightshift.demo.standin_repository import PUSH_LOG
from gitlab_nightshift.repository.git import Git, GitError


@dataclass(frozen=True)
class Push:
    """One ref as it was pushed; ``old`` or ``new`` is all zeros for a created or deleted one.
    ``user`` is the login of who pushed it."""

    old: str
    new: str
    ref: str
    options: tuple[str, ...] = ()
    user: str = ""


def read_pushes(bare: Path) -> list[Push]:
    """What the post-receive hook noted."""
    log = bare / PUSH_LOG
    pushes: list[Push] = []
    for line in log.read_text().splitlines() if log.exists() else []:
        if line.startswith("option "):
            last = pushes.pop()
            pushes.append(replace(last, options=(*last.options, line[7:])))
        elif line.startswith("user "):
            pushes.append(replace(pushes.pop(), user=line[5:]))
        else:
            old, new, ref = line.split(" ", 2)
            pushes.append(Push(old, new, ref))
    return pushes


def read_blob(git: Git, bare: Path, ref: str, path: str) -> bytes | None:
    """A file at a ref; None where there is none."""
    try:
        return git.run("cat-file", "blob", f"{ref}:{path}", cwd=bare)
    except GitError:
        return None


def has_conflict(git: Git, bare: Path, target: str, source: str) -> bool:
    """Whether git alone cannot merge two commits."""
    try:
        git.run("merge-tree", "--write-tree", target, source, cwd=bare)
    except GitError:
        return True
    return False


def rebase(git: Git, bare: Path, branch: str, onto: str, user: str) -> str | None:
    """Put a branch onto another commit; its new commit, None where git alone cannot."""
    with tempfile.TemporaryDirectory(dir=bare.parent) as folder:
        tree = Path(folder) / "tree"
        git.run("worktree", "add", "--quiet", "--detach", str(tree), branch, cwd=bare)
        identity = ("-c", f"user.name={user}", "-c", f"user.email={user}@noreply.gitlab.invalid")
        try:
            git.run(*identity, "rebase", "--quiet", onto, cwd=tree)
            made = git.run("rev-parse", "HEAD", cwd=tree).decode().strip()
        except GitError:
            return None
        finally:
            git.run("worktree", "remove", "--force", str(tree), cwd=bare)
    git.run("update-ref", f"refs/heads/{branch}", made, cwd=bare)
    return made
