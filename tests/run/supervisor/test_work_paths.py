"""Which paths are hidden from work."""

import contextlib
import socket
from pathlib import Path

from gitlab_nightshift.run.supervisor.work_paths import _find_sockets


def test_sockets_that_are_hidden(tmp_path: Path) -> None:
    """In temporary folders, those below HOME or named by a variable: others may vanish."""
    names = ("home/agent", "named", "stranger", "gone")
    (tmp_path / "home").mkdir()
    with contextlib.ExitStack() as stack:
        for name in names:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(tmp_path / name))
            listener.listen()
        (tmp_path / "gone").unlink()
        env = {"SSH_AUTH_SOCK": str(tmp_path / "named")}
        paths = {path for path in _find_sockets(env, tmp_path / "home") if tmp_path in path.parents}
        assert paths == {tmp_path / "home/agent", tmp_path / "named"}
        paths = {path for path in _find_sockets({}, Path("/")) if tmp_path in path.parents}
        assert paths == set()
