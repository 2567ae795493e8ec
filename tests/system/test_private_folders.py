"""Private folders are removed at the end of a run, or by the next start after a kill."""

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
    """A run in its own process that waits in its private folder."""

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


def recover_results(parent: Path, checkout: Path) -> list[str]:
    """The results that the next start recovers."""
    results: list[str] = []
    remove_leftovers(
        parent, checkout, lambda folder: results.append((folder / "result").read_text())
    )
    return results


def test_it_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    with open_private_folder(tmp_path, tmp_path / "shop") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "closed/inner").mkdir(parents=True)
        (folder / "closed/inner/file").write_text("x")
        (folder / "closed").chmod(0)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_run_is_recovered_and_removed(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    folder = Run(tmp_path, shop).end()
    assert folder.exists()
    assert recover_results(tmp_path, shop) == ["paid for"]
    assert list(tmp_path.iterdir()) == []
    assert recover_results(tmp_path, shop) == []


def test_the_folder_of_a_live_run_stays(tmp_path: Path) -> None:
    """However old its files look."""
    shop = tmp_path / "shop"
    run = Run(tmp_path, shop)
    os.utime(run.folder, (0, 0))
    assert recover_results(tmp_path, shop) == []
    assert (run.folder / "result").exists()
    run.end()
    assert recover_results(tmp_path, shop) == ["paid for"]


def test_the_folder_of_another_checkout_stays_until_that_is_gone(tmp_path: Path) -> None:
    other, shop = tmp_path / "other", tmp_path / "shop"
    other.mkdir()
    folder = Run(tmp_path, other).end()
    assert recover_results(tmp_path, shop) == []
    assert folder.exists()
    other.rmdir()
    assert recover_results(tmp_path, shop) == []
    assert not folder.exists()


def test_other_files_and_folders_stay(tmp_path: Path) -> None:
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
    assert recover_results(tmp_path, shop) == []
    assert {path.name for path in tmp_path.iterdir()} == before
    assert (outside / "result").exists()


def test_another_users_folder_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    folder = Run(tmp_path, tmp_path / "shop").end()
    os.chown(folder, 12345, 12345)
    assert recover_results(tmp_path, tmp_path / "shop") == []
    assert folder.exists()


# --- forged folders -------------------------------------------------------------------------------


def recover_forged(folder: Path, checkout: Path) -> list[str]:
    """The results recovered from a live run's folder that is made to look like a killed one's."""
    (folder / "lock").unlink(missing_ok=True)
    (folder / "lock").touch()
    (folder / "checkout").write_bytes(os.fsencode(checkout))
    (folder / "result").write_text("to any place")
    return recover_results(folder.parent, checkout)


@pytest.fixture
def without_length_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_folders, "choose_short_parent", lambda parent: parent)


@pytest.mark.usefixtures("without_length_limit")
@pytest.mark.parametrize("find", [lambda path: path, lambda path: path.parent])
def test_a_scratch_folder_is_never_recovered(tmp_path: Path, find: Callable[[Path], Path]) -> None:
    """Agents can write only in it; the folder around it would not be recovered either."""
    shop = tmp_path / "shop"
    with open_scratch_folder(tmp_path, shop) as scratch:
        assert scratch.stat().st_mode & 0o777 == 0o711
        assert scratch.parent.parent == tmp_path
        assert recover_forged(find(scratch), shop) == []


@pytest.mark.usefixtures("without_length_limit")
def test_with_the_private_prefix_it_would_be_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr(private_folders, "PRIVATE_PREFIX", private_folders.SCRATCH_PREFIX)
    with open_scratch_folder(tmp_path, tmp_path / "shop") as scratch:
        assert recover_forged(scratch.parent, tmp_path / "shop") == ["to any place"]
