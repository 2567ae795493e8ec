"""Which paths of a machine work may not see."""

import contextlib
import socket
from pathlib import Path

from gitlab_nightshift.run.supervisor.work_paths import _find_sockets


def test_sockets_that_are_covered(tmp_path: Path) -> None:
    """In temporary folders those below HOME or named: another may be gone a moment later."""
    names = ("home/agent", "named", "stranger", "gone")
    (tmp_path / "home").mkdir()
    with contextlib.ExitStack() as stack:
        for name in names:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(tmp_path / name))
            listener.listen()
        (tmp_path / "gone").unlink()
        env = {"SSH_AUTH_SOCK": str(tmp_path / "named")}
        found = {path for path in _find_sockets(env, tmp_path / "home") if tmp_path in path.parents}
        assert found == {tmp_path / "home/agent", tmp_path / "named"}
        found = {path for path in _find_sockets({}, Path("/")) if tmp_path in path.parents}
        assert found == set()
