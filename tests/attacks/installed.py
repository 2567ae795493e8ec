"""Run a command where more is installed: ``python installed.py NAME OWNER COMMAND``.

Private files in ``/opt`` and ``/usr/local``, and a credential file that everybody may read: in a
mount namespace of its own, so that no other program of this machine sees them. Each holds the flag
``$NIGHT_FLAG`` with its name at the end. Without the right to mount, the command runs without them.
"""

import ctypes
import os
import sys
from pathlib import Path

NEW_MOUNTS, PRIVATE, RECURSIVE = 0x20000, 1 << 18, 1 << 14
INSTALLED = {
    "installed_key": ("/opt/{}/etc/key", 0o755, 0o600),
    "installed_folder": ("/opt/{}/closed/key", 0o700, 0o644),
    "installed_for_a_group": ("/usr/local/share/{}/key", 0o755, 0o640),
    "installed_pip_conf": ("/opt/{}/pip.conf", 0o755, 0o644),
}
"""Where a file is, and the modes of its folder and of itself; ``{}`` is the name of the run."""


def paths(name: str) -> dict[str, str]:
    """Name → path of what is installed."""
    return {each: path.format(name) for each, (path, *_) in INSTALLED.items()}


def tops(name: str) -> tuple[Path, ...]:
    """The folders that have to be there, empty, for everybody else."""
    return Path("/opt", name), Path("/usr/local/share", name)


def main(name: str, owner: int, command: list[str]) -> None:
    """Install, then become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.unshare(NEW_MOUNTS) and not libc.mount(None, b"/", None, PRIVATE | RECURSIVE, None):
        for top in tops(name):
            if libc.mount(b"none", str(top).encode(), b"tmpfs", 0, b"mode=755") != 0:
                raise OSError(ctypes.get_errno(), f"tmpfs on {top}")
        word = os.environ["NIGHT_FLAG"].rpartition("-")[0]
        for each, (path, folder_mode, mode) in INSTALLED.items():
            _install(Path(path.format(name)), f"{word}-{each}", owner, folder_mode, mode)
    os.execvp(command[0], command)


def _install(path: Path, flag: str, owner: int, folder_mode: int, mode: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[global]\nindex-url = https://reader:{flag}@mirror.example/simple\n")
    path.chmod(mode)
    path.parent.chmod(folder_mode)
    for each in (path, path.parent):
        os.chown(each, owner, owner)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
