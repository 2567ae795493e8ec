"""A checkout of its own for each test, and how to open it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from gitlab_nightshift.repository.checkout import Checkout, open_checkout
from gitlab_nightshift.repository.checkout_restore import repair
from gitlab_nightshift.repository.git import Git, build_isolated_git, find_repository_paths
from gitlab_nightshift.repository.private_repository import Repository, create_private_repository
from tests.repository.tools import remove_all, repository
from tests.support import kept

FILES = {
    "README.md": "hello\n",
    "src/app.py": "print('app')\n",
    "src/lib/util.py": "def one():\n    return 1\n",
    ".gitignore": "build/\n*.log\nnode_modules/\n",
}


@dataclass(frozen=True)
class Box:
    """A checkout ``root`` in a builds folder, and a private folder."""

    root: Path
    private: Path
    base: str
    warnings: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def open(
        self,
        output_dir: str = "nightshift",
        real_home: Path | None = None,
        *,
        use_mounts: bool = False,
    ) -> Iterator[Checkout]:
        with open_checkout(
            self.root,
            output_dir=output_dir,
            private=self.private,
            search_path=os.environ["PATH"],
            run_id="4711",
            real_home=real_home,
            use_mounts=use_mounts,
            warn=self.warnings.append,
        ) as checkout:
            yield checkout

    def repair(self) -> bool:
        return repair(self.root, private=self.private, search_path=os.environ["PATH"])

    def create_private(self, name: str = "git") -> Repository:
        """A private repository that borrows the checkout's objects."""
        paths = find_repository_paths(self.git, self.root)
        return create_private_repository(self.git, self.private / name, paths)

    @property
    def beside(self) -> set[str]:
        """The names beside the checkout."""
        return {path.name for path in self.root.parent.iterdir()} - {self.root.name}

    @property
    def git(self) -> Git:
        return build_isolated_git(self.private / "home", os.environ["PATH"])


@cache
def _make_template() -> tuple[Path, str]:
    """A repository of ``FILES``, made once, and its commit."""
    root = Path(tempfile.mkdtemp(prefix="shop-", dir=kept.folder), "shop")
    return root, repository(root, FILES)


def new_repository(root: Path) -> str:
    """Copy the repository of ``FILES`` to a new folder; returns its commit."""
    template, base = _make_template()
    shutil.copytree(template, root)
    return base


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    root = tmp_path / "builds" / "shop"
    base = new_repository(root)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    yield Box(root, private, base)
    remove_all(tmp_path)


@pytest.fixture
def private(box: Box) -> Repository:
    return box.create_private()
