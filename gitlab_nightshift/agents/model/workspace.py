"""The checkout as a model's tools see it: files by relative paths, real or with proposed edits."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.agents.model import checkout_files
from gitlab_nightshift.agents.model.edits import Edit, find_path_problem
from gitlab_nightshift.repository.git import Git


class OutsideError(Exception):
    """A path that tools refuse; the message is for the model."""


@dataclass(frozen=True)
class Workspace:
    """A checkout and the git for it. ``handed`` are other folders whose files may be read. With
    ``proposed``, edits are collected there and no file is changed. ``is_hidden`` is true for files
    that no tool shows."""

    top: Path
    git: Git
    handed: tuple[Path, ...] = ()
    proposed: dict[str, Edit] | None = None
    is_hidden: Callable[[str], bool] = field(default=lambda path: False)

    def locate(self, given: str) -> str:
        """The path relative to the checkout's top ("" is the top itself). Raises OutsideError."""
        for top in (str(self.top), os.path.realpath(self.top)):
            if given == top or given.startswith(f"{top}/"):
                given = given[len(top) :].lstrip("/")
        path = "" if given in ("", ".", "./") else os.path.normpath(given)
        if path and (problem := find_path_problem(path)):
            raise OutsideError(f"{given[:200]!r}: {problem}")
        if path and self.is_hidden(path):
            raise OutsideError(f"{path}: its name says that it holds secrets; it is not shown")
        return path

    def read(self, path: str) -> bytes | None:
        """The file as it is now, None if there is none. Raises UnreadableFileError."""
        edit = (self.proposed or {}).get(path)
        return edit.after if edit else checkout_files.make_reader(self.top)(path)

    def read_handed(self, given: str) -> bytes | None:
        """A file in one of the ``handed`` folders, None for any other path."""
        place = Path(os.path.normpath(given))
        if place.parent in self.handed and place.is_file():
            return checkout_files.make_reader(place.parent)(place.name)
        return None

    def list_folder(self, path: str) -> list[str]:
        """The names in a folder; folders end in a slash. Raises UnreadableFileError."""
        prefix = f"{path}/" if path else ""
        names = checkout_files.list_folder(self.top, path)
        return [name for name in names if not self.is_hidden(prefix + name)]

    def apply(self, edits: Iterable[Edit]) -> None:
        """Make the changes, all or none. Raises NotApplicableError."""
        if self.proposed is None:
            checkout_files.apply(self.top, edits)
            return
        for edit in edits:
            first = self.proposed.get(edit.path, edit).before
            self.proposed[edit.path] = Edit(edit.path, first, edit.after, edit.added, edit.deleted)
