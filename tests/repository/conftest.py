"""A checkout in a folder of its own, and what is needed to open it."""

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
from gitlab_nightshift.repository.git import Git, build_isolated_git
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
        mounting: bool = False,
    ) -> Iterator[Checkout]:
        with open_checkout(
            self.root,
            output_dir=output_dir,
            private=self.private,
            search_path=os.environ["PATH"],
            run_id="4711",
            real_home=real_home,
            mounting=mounting,
            warn=self.warnings.append,
        ) as checkout:
            yield checkout

    def repair(self) -> bool:
        return repair(self.root, private=self.private, search_path=os.environ["PATH"])

    @property
    def beside(self) -> set[str]:
        """What stands beside the checkout."""
        return {path.name for path in self.root.parent.iterdir()} - {self.root.name}

    @property
    def git(self) -> Git:
        return build_isolated_git(self.private / "home", os.environ["PATH"])


@cache
def _first() -> tuple[Path, str]:
    """A repository of ``FILES``, made once, and its commit."""
    root = Path(tempfile.mkdtemp(prefix="shop-", dir=kept.folder), "shop")
    return root, repository(root, FILES)


def new_repository(root: Path) -> str:
    """A repository of ``FILES`` in a new folder, copied; its commit."""
    made, base = _first()
    shutil.copytree(made, root)
    return base


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    root = tmp_path / "builds" / "shop"
    base = new_repository(root)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    yield Box(root, private, base)
    remove_all(tmp_path)
