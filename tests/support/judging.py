"""Judge a change that is given as two mappings of paths to texts."""

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gitlab_nightshift.proof.reading import find_red_flags
from gitlab_nightshift.proof.reviewed_change import Context, read_change
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.repository.git import build_isolated_git
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from tests.support.changes import commit

Files = Mapping[str, str | bytes]
Judge = Callable[..., list[Finding]]


def judging(folder: Path) -> Judge:
    """A function (before, after, flag, **context) → the findings of that flag, or of all.

    ``after`` holds only what is different from ``before``; None is a file that went.
    """
    git = build_isolated_git(folder / "home", os.environ["PATH"])
    git.run("init", "--quiet", "--bare", "--template=", str(folder / "git"), cwd=folder)
    repository = Repository(git, folder / "git")
    numbers = itertools.count()

    def raised(
        before: Files, after: Mapping[str, str | bytes | None], flag: str = "", **context: Any
    ) -> list[Finding]:
        number = next(numbers)
        whole = {**before, **after}
        trees = (before, {path: data for path, data in whole.items() if data is not None})
        refs = [f"refs/n/{number}/{side}" for side in ("before", "after")]
        stream = b"".join(
            commit(ref, {p: d.encode() if isinstance(d, str) else d for p, d in tree.items()})
            for ref, tree in zip(refs, trees, strict=True)
        )
        repository.run("fast-import", "--quiet", "--done", stdin=stream + b"done\n")
        found = find_red_flags(read_change(repository, *refs), _context(**context))
        return [each for each in found if not flag or each.name == flag]

    return raised


def _context(settings: str = "", **context: Any) -> Context:
    read = load_settings({}, ConfigFile("x", settings)) if settings else Settings()
    return Context(read, **context)
