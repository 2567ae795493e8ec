"""Private folders: removed at the end, and by the next start where the end was a kill."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gitlab_nightshift.system import private_folders
from gitlab_nightshift.system.private_folders import (
    open_private_folder,
    open_scratch_folder,
    remove_leftovers,
)

RUN = """
import sys
from pathlib import Path
from gitlab_nightshift.system.private_folders import open_private_folder
with open_private_folder(Path(sys.argv[1]), Path(sys.argv[2])) as folder:
    (folder / "result").write_text("paid for")
    print(folder, flush=True)
    sys.stdin.read()
"""


class Run:
    """A run of its own that waits in its private folder."""

    def __init__(self, parent: Path, checkout: Path) -> None:
        argv = [sys.executable, "-c", RUN, str(parent), str(checkout)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout
        self.folder = Path(self.process.stdout.readline().strip())

    def end(self, number: signal.Signals = signal.SIGKILL) -> Path:
        self.process.send_signal(number)
        self.process.communicate()
        return self.folder


def collected(parent: Path, checkout: Path) -> list[str]:
    """What could be recovered, as the next start would."""
    found: list[str] = []
    remove_leftovers(parent, checkout, lambda folder: found.append((folder / "result").read_text()))
    return found


def test_it_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    with open_private_folder(tmp_path, tmp_path / "shop") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "closed/inner").mkdir(parents=True)
        (folder / "closed/inner/file").write_text("x")
        (folder / "closed").chmod(0)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_recovered_and_removed(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    folder = Run(tmp_path, shop).end()
    assert folder.exists()
    assert collected(tmp_path, shop) == ["paid for"]
    assert list(tmp_path.iterdir()) == []
    assert collected(tmp_path, shop) == []


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    """However old it looks, and whoever its pid was."""
    shop = tmp_path / "shop"
    run = Run(tmp_path, shop)
    os.utime(run.folder, (0, 0))
    assert collected(tmp_path, shop) == []
    assert (run.folder / "result").exists()
    run.end()
    assert collected(tmp_path, shop) == ["paid for"]


def test_the_folder_of_another_checkout_waits_for_it(tmp_path: Path) -> None:
    other, shop = tmp_path / "other", tmp_path / "shop"
    other.mkdir()
    folder = Run(tmp_path, other).end()
    assert collected(tmp_path, shop) == []
    assert folder.exists()
    other.rmdir()
    assert collected(tmp_path, shop) == []
    assert not folder.exists()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    dead = Run(tmp_path, shop).end()
    outside = tmp_path / "outside"
    dead.rename(outside)
    (tmp_path / "nightshift-link").symlink_to(outside)
    (tmp_path / "nightshift-file").write_text("x")
    (tmp_path / "nightshift-new").mkdir()
    unnamed = tmp_path / "nightshift-unnamed"
    unnamed.mkdir()
    (unnamed / "lock").touch()
    before = {path.name for path in tmp_path.iterdir()}
    assert collected(tmp_path, shop) == []
    assert {path.name for path in tmp_path.iterdir()} == before
    assert (outside / "result").exists()


def test_another_users_folder_is_left_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    folder = Run(tmp_path, tmp_path / "shop").end()
    os.chown(folder, 12345, 12345)
    assert collected(tmp_path, tmp_path / "shop") == []
    assert folder.exists()


# --- what agents' side writes in its own ----------------------------------------------------------


def forged(folder: Path, checkout: Path) -> list[str]:
    """What would be recovered where a living run's folder is made to look like a dead one's."""
    (folder / "lock").unlink(missing_ok=True)
    (folder / "lock").touch()
    (folder / "checkout").write_bytes(os.fsencode(checkout))
    (folder / "result").write_text("to any place")
    return collected(folder.parent, checkout)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the path is."""
    monkeypatch.setattr(private_folders, "choose_short_parent", lambda parent: parent)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("find", [lambda path: path, lambda path: path.parent])
def test_a_scratch_folder_passes_for_no_dead_run(
    tmp_path: Path, find: Callable[[Path], Path]
) -> None:
    """Only in it anybody but us can write; even what is around it would not be recovered."""
    shop = tmp_path / "shop"
    with open_scratch_folder(tmp_path, shop) as scratch:
        assert scratch.stat().st_mode & 0o777 == 0o711
        assert scratch.parent.parent == tmp_path
        assert forged(find(scratch), shop) == []


@pytest.mark.usefixtures("near")
def test_without_that_it_would_be_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: its top may be written, and every folder is recovered."""
    monkeypatch.setattr(private_folders, "PRIVATE_PREFIX", private_folders.SCRATCH_PREFIX)
    with open_scratch_folder(tmp_path, tmp_path / "shop") as scratch:
        assert forged(scratch.parent, tmp_path / "shop") == ["to any place"]
