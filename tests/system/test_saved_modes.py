"""Folders that work has closed are open again, and only those."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.system.saved_modes import save_modes
from tests.nights_sandbox.test_plain_user import PLAIN
from tests.repository.tools import fork, wait_end
from tests.sandbox.tools import open_folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("restoring", [True, False])
def test_closed_folders_are_passed_again(*, restoring: bool) -> None:
    """The control: without that nobody comes to the checkout."""
    with open_folder() as folder:
        checkout = folder / "builds/group/shop"
        checkout.mkdir(parents=True)
        for path in (checkout.parent.parent, checkout.parent, checkout):
            path.chmod(0o750)
            os.chown(path, PLAIN, PLAIN)

        def go() -> None:
            os.setresgid(PLAIN, PLAIN, PLAIN)
            os.setresuid(PLAIN, PLAIN, PLAIN)
            kept = save_modes((checkout,))
            for path in (checkout.parent, checkout.parent.parent):
                path.chmod(0)
            if restoring:
                kept.restore()
            assert os.access(checkout, os.W_OK) is restoring

        assert wait_end(fork(go)) == 0
        modes = [path.stat().st_mode & 0o777 for path in (folder, *checkout.parents[:2])]
        assert modes[1:] == ([0o750, 0o750] if restoring else [0, 0])


def test_what_is_anothers_is_left_alone(tmp_path: Path) -> None:
    known = save_modes((tmp_path / "checkout",)).modes
    assert list(known)[-1] == tmp_path
    assert all(path.stat().st_uid == os.geteuid() for path in known)
