"""The process that reads a bundle: it rebuilds the tree from base and patch, and describes it.

It has no secrets and decides nothing. On stdin, after the task (from ``stage_process.py``), it
gets the bytes of ``bundle.json`` and ``change.patch``. Its answer has three parts:

1. a line of JSON: the files that GitLab reads as pipeline configuration in the base. It is written
   before any byte of the bundle is read, so the bundle's author cannot influence it;
2. a line of JSON: the bundle as it was read, and the change or why there is none;
3. the bytes of new files.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from gitlab_nightshift.policy.protected_files import find_settings_files, list_changed_settings
from gitlab_nightshift.records.codec import make_record, to_fields
from gitlab_nightshift.repository.git import GitError, build_isolated_git
from gitlab_nightshift.repository.git_formats import SUBMODULE
from gitlab_nightshift.repository.patches import apply_patch, find_relation
from gitlab_nightshift.repository.pipeline_config import read_pipeline_files
from gitlab_nightshift.repository.private_repository import (
    Repository,
    RepositoryParts,
    create_private_repository,
    list_diff_files,
    read_blobs,
    share_reader,
)
from gitlab_nightshift.repository.tree_objects import (
    find_entries,
    list_differences,
    read_tree_file,
    resolve_tree,
)


@dataclass(frozen=True)
class RebuildTask:
    """The reader's work, decided before a bundle is read.

    ``folder`` is the reader's own; ``base`` is the commit that the patch changes. ``sizes`` are the
    bytes of bundle and patch; ``largest`` are limits in bytes: of the bundle, of a file, of all
    files. With ``onto``, a commit, the patch is only compared with that, and nothing is rebuilt.
    """

    folder: Path
    objects: tuple[Path, ...]
    object_format: str
    attributes: bytes
    config: Mapping[str, str]
    base: str
    ci_config: str
    search_path: str
    sizes: tuple[int, int]
    largest: tuple[int, int, int]
    onto: str = ""


def build_task_data(task: RebuildTask) -> dict[str, Any]:
    """The JSON that :func:`main` gets."""
    return {"task": to_fields(task)}


def main(data: Mapping[str, Any]) -> int:
    """Do the task, and write the answer to stdout."""
    task: RebuildTask = make_record(RebuildTask, data["task"])
    git = build_isolated_git(task.folder / "home", task.search_path)
    parts = RepositoryParts(
        objects=task.objects, object_format=task.object_format, attributes=task.attributes
    )
    repository = create_private_repository(git, task.folder / "repository.git", parts, task.config)
    with share_reader(repository) as shared:
        _answer(shared, task)
    return 0


def _answer(repository: Repository, task: RebuildTask) -> None:
    if task.onto:
        patch = sys.stdin.buffer.read()
        return _write_line({"relation": find_relation(repository, task.onto, patch, None)})
    has_base = _find_base_tree(repository, task) != ""
    ci = read_pipeline_files(repository, task.base, task.ci_config).patterns if has_base else ()
    _write_line({"ci": ci})  # before the first byte of the bundle is read
    bundle, patch = (sys.stdin.buffer.read(size) for size in task.sizes)
    answer, blobs = build_answer(repository, task, bundle, patch)
    _write_line(answer)
    sys.stdout.buffer.write(b"".join(blobs))
    sys.stdout.buffer.flush()


def _write_line(value: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


def build_answer(
    repository: Repository, task: RebuildTask, bundle: bytes, patch: bytes
) -> tuple[dict[str, Any], list[bytes]]:
    """The second and the third part of the answer, as JSON and as the bytes of each new file."""
    try:
        data = json.loads(bundle)
        # The answer has it as a line of ASCII, where an escape is longer than the character.
        largest_line, _, _ = task.largest
        if len(json.dumps(data)) > largest_line:
            raise ValueError("it is larger than it looks")
    except (ValueError, RecursionError, MemoryError) as error:
        return {"unreadable": str(error)[:200] or "it is too large"}, []
    if not isinstance(data, dict) or data.get("outcome") != "MR_READY":
        return {"bundle": data}, []
    try:
        change, blobs = rebuild_change(repository, task, patch)
    except _RebuildError as error:
        return {"bundle": data, "refused": str(error)}, []
    return {"bundle": data, "change": change}, blobs


class _RebuildError(Exception):
    """Why there is no change."""


def rebuild_change(
    repository: Repository, task: RebuildTask, patch: bytes
) -> tuple[dict[str, Any], list[bytes]]:
    """The patch's change to the base, as JSON, and the bytes of new blobs. Raises _RebuildError."""
    before = _find_base_tree(repository, task)
    if not before:
        raise _RebuildError(f"the checkout does not hold the commit {task.base[:12]}")
    try:
        tree = apply_patch(repository, task.base, patch, memory=None)
    except GitError:
        raise _RebuildError("change.patch does not apply to its base: it was edited") from None
    _, largest_file, largest_change = task.largest
    sizes = _read_sizes(repository, before, tree, largest_file)
    if max(sizes, default=0) > largest_file or sum(sizes) > largest_change:
        text = f"a file of the change has more than {largest_file} bytes, or all of it more"
        raise _RebuildError(f"{text} than {largest_change}")
    changed = list_diff_files(repository, before, tree)
    new = [file.blob for file in changed if _is_new_object(repository, file.blob)]
    blobs = list(read_blobs(repository, new).values())
    files = [(os.fsencode(path).hex(), *values) for path, *values in map(astuple, changed)]
    sides = (
        (path, read_tree_file(repository, before, path), read_tree_file(repository, tree, path))
        for path in find_settings_files(file.path for file in changed)
    )
    changed_settings = list_changed_settings(sides).items()
    settings = [(os.fsencode(path).hex(), what) for path, what in changed_settings]
    answer = {"tree": tree, "files": files, "settings": settings}
    return {**answer, "sizes": [len(blob) for blob in blobs]}, blobs


def _read_sizes(repository: Repository, old: str, new: str, largest: int) -> list[int]:
    """The sizes in bytes, in both trees, of the files in which they differ, up to the first one
    larger than ``largest``. Raises GitError, _RebuildError."""
    after = list_differences(repository, old, new)
    before = find_entries(repository, old, after)
    entries = (*before.values(), *filter(None, after.values()))
    blobs = [blob for mode, blob in entries if mode != SUBMODULE]
    try:
        with repository.open_reader() as reader:
            sizes = reader.measure(dict.fromkeys(blobs), largest)
    except (EOFError, OSError):
        raise _RebuildError("a file of the change cannot be read") from None
    return [sizes[blob] for blob in blobs if blob in sizes]


def _find_base_tree(repository: Repository, task: RebuildTask) -> str:
    """The base's tree, "" if the checkout does not have that commit."""
    try:
        return resolve_tree(repository, task.base)
    except GitError:
        return ""


def _is_new_object(repository: Repository, blob: str) -> bool:
    """True for an object that this process wrote, not one of the checkout's."""
    return (repository.folder / "objects" / blob[:2] / blob[2:]).exists()
