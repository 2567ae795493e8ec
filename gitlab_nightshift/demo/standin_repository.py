"""Creates the stand-in's bare repositories, with GitLab's push checks, and reads commits."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitlab_nightshift.repository.git import Git, GitError
from gitlab_nightshift.repository.git_formats import write_git_folder

PUSH_LOG = "standin-pushes"
COMMIT_FIELDS = {  # of the API, with placeholders of git log
    "id": "%H",
    "short_id": "%h",
    "parent_ids": "%P",
    "author_name": "%an",
    "author_email": "%ae",
    "authored_date": "%aI",
    "committer_name": "%cn",
    "committer_email": "%ce",
    "committed_date": "%cI",
    "title": "%s",
    "message": "%B",
}
COMMIT_FORMAT = "%x00".join(COMMIT_FIELDS.values())
DELETED, ADDED, RENAMED = "D", "A", "R"

# A runner fetches by commit id, so GitLab also serves commits that no branch points at.
CONFIG = """
[http]
\treceivepack = true
[receive]
\tadvertisePushOptions = true
\tautogc = false
[uploadpack]
\tallowAnySHA1InWant = true
\tallowFilter = true
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""

# The texts are GitLab's (lib/gitlab/checks/branch_check.rb).
# set -f: a protected wildcard must not be expanded to files.
PRE_RECEIVE = """#!/bin/sh
set -f
zero=0000000000000000000000000000000000000000
refuse() { echo "GitLab: $1" >&2; exit 1; }
while read -r old new ref; do
  for pattern in $STANDIN_PROTECTED; do
    case "$ref" in refs/heads/$pattern) ;; *) continue ;; esac
    if [ "$old" != $zero ] && [ "$new" != $zero ] && ! git merge-base --is-ancestor "$old" "$new"
    then refuse "You are not allowed to force push code to a protected branch on this project."; fi
    [ "$STANDIN_ACCESS_LEVEL" -ge 40 ] && continue
    [ "$old" = $zero ] &&
      refuse "You are not allowed to create protected branches on this project."
    [ "$new" = $zero ] &&
      refuse "You are not allowed to delete protected branches from this project.\
 Only a project maintainer or owner can delete a protected branch."
    refuse "You are not allowed to push code to protected branches on this project."
  done
done
"""

# Push options are in numbered variables (githooks(5), pre-receive); sh has no indirect expansion.
POST_RECEIVE = f"""#!/bin/sh
[ -n "$STANDIN_ACCESS_LEVEL" ] || exit 0  # it is set for pushes over HTTP only
while read -r old new ref; do
  echo "$old $new $ref"
  printf 'user %s\\n' "$REMOTE_USER"
  count=0
  while [ $count -lt "${{GIT_PUSH_OPTION_COUNT:-0}}" ]; do
    eval "option=\\$GIT_PUSH_OPTION_$count"
    printf 'option %s\\n' "$option"
    count=$((count + 1))
  done
done >> {PUSH_LOG}
"""


def create_bare_repository(path: Path, default_branch: str) -> None:
    """Create an empty bare repository that accepts pushes over HTTP."""
    write_git_folder(path, {"core.bare": "true"}, head=f"ref: refs/heads/{default_branch}")
    with (path / "config").open("a") as config:
        config.write(CONFIG)
    (path / "hooks").mkdir()
    for name, text in (("pre-receive", PRE_RECEIVE), ("post-receive", POST_RECEIVE)):
        hook = path / "hooks" / name
        hook.write_text(text)
        hook.chmod(0o755)


def read_heads(bare: Path) -> dict[str, str]:
    """Branch → commit. Read from files, as a process for each request would be slow."""
    heads: dict[str, str] = {}
    packed, loose = bare / "packed-refs", bare / "refs/heads"
    if packed.exists():
        lines = (line.partition(" refs/heads/") for line in packed.read_text().splitlines())
        heads = {name: sha for sha, _, name in lines if name}
    # A loose ref takes precedence over a packed one (git-pack-refs(1)).
    for file in loose.rglob("*"):
        if file.suffix != ".lock" and file.is_file():
            heads[str(file.relative_to(loose))] = file.read_text().strip()
    return heads


def resolve(git: Git, bare: Path, ref: str) -> str | None:
    """The commit of a branch, tag or commit id; None if there is none."""
    for name in (f"refs/heads/{ref}", ref):
        try:
            arguments = ("rev-parse", "--quiet", "--verify", "--end-of-options")
            return git.run(*arguments, f"{name}^{{commit}}", cwd=bare).decode().strip()
        except GitError:
            continue
    return None


def find_merge_base(git: Git, bare: Path, old: str, new: str) -> str:
    """The merge base of ``new`` and ``old``; ``old`` if they have none."""
    try:
        return git.run("merge-base", old, new, cwd=bare).decode().strip()
    except GitError:
        return old


def read_commits(git: Git, bare: Path, *revisions: str) -> list[dict[str, Any]]:
    """Commits as the API shows them, oldest first; ``revisions`` are arguments of ``git log``."""
    # Separated by NULs, which no message can contain.
    log_format = f"--format={COMMIT_FORMAT}%x00%x00"
    text = git.run("log", "--reverse", log_format, *revisions, cwd=bare).decode(errors="replace")
    return [_parse_commit(entry.lstrip("\n")) for entry in text.split("\0\0\n") if entry.strip()]


def _parse_commit(entry: str) -> dict[str, Any]:
    data: dict[str, Any] = dict(zip(COMMIT_FIELDS, entry.split("\0"), strict=True))
    parents = data["parent_ids"].split()
    return {**data, "parent_ids": parents, "created_at": data["committed_date"]}


def read_diffs(git: Git, bare: Path, old: str, new: str) -> list[dict[str, Any]]:
    """The files that differ between two commits, as the API shows them."""
    raw = git.run("diff", "--raw", "-z", "-M", "--no-abbrev", old, new, cwd=bare)
    patch = git.run("diff", "-M", "--no-color", old, new, cwd=bare)
    texts = re.split(r"(?m)^diff --git ", patch.decode(errors="replace"))[1:]
    entries = _parse_raw_entries(raw.decode(errors="replace"))
    return [_build_diff(entry, text) for entry, text in zip(entries, texts, strict=True)]


def _parse_raw_entries(raw: str) -> Iterator[tuple[str, str, str, str, str]]:
    # git-diff(1), RAW OUTPUT FORMAT: with -z a rename or a copy has two paths.
    fields = iter(raw.split("\0"))
    for header in fields:
        if not header:
            return
        old_mode, new_mode, _, _, status = header[1:].split(" ")
        old_path = next(fields)
        new_path = next(fields) if status[0] in "RC" else old_path
        yield old_mode, new_mode, status[0], old_path, new_path


def _build_diff(entry: tuple[str, str, str, str, str], text: str) -> dict[str, Any]:
    old_mode, new_mode, status, old_path, new_path = entry
    start = re.search(r"(?m)^(@@|Binary files )", text)
    return {
        "old_path": old_path,
        "new_path": new_path,
        "a_mode": old_mode,
        "b_mode": new_mode,
        "new_file": status == ADDED,
        "renamed_file": status == RENAMED,
        "deleted_file": status == DELETED,
        "diff": text[start.start() :] if start else "",
    }
