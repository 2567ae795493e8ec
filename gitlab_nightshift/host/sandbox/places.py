"""What of this machine every confined process may read: the system, without what is private."""

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/opt"),
)
KERNEL = ("/proc", "/sys")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SETTINGS = "/etc"
HOME_FILES = (
    *(".netrc", ".git-credentials", ".config/git/credentials", ".ssh", ".gnupg"),
    *(".docker/config.json", ".kube/config", ".aws", ".azure", ".config/gcloud", ".vault-token"),
    *(".config/glab-cli/config.yml", ".config/gh/hosts.yml"),
    *(".claude/.credentials.json", ".claude.json", ".codex/auth.json"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".pip/pip.conf"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *(".sbt/.credentials", ".ivy2/.credentials", ".config/coursier/credentials.properties"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".bundle/config"),
    *(".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet/NuGet.Config"),
)
"""Where a home usually keeps credentials: no agent may read them, and the proof tries to."""
SYSTEM_SECRETS = frozenset(
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d"
    " /etc/gitlab-runner /etc/ssl/private /etc/ssh".split()
)
"""Private whatever their mode says today: an earlier night's agent may have changed it."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name
INSIDE = Path(__file__).parent / "inside"


@dataclass(frozen=True)
class System:
    """Paths of the system's own: ``readable`` by an agent, and of these folders' ``private`` part.

    Settings that not everybody may read are left out also where the job is root.
    """

    readable: tuple[str, ...]
    private: tuple[str, ...]


def system() -> System:
    """Look at this machine (a walk through ``/etc``, a few milliseconds)."""
    readable, private = list[str](), list[str]()
    if not _split(SETTINGS, readable, private):
        readable = [SETTINGS]
    there = [folder for folder in FOLDERS if Path(folder).is_dir()]
    return System((*there, *KERNEL, *readable), tuple(private))


def _split(folder: str, readable: list[str], private: list[str]) -> bool:
    """Sort what is in a folder; False where all of it is readable, and nothing was added.

    A link grants nothing by itself: what it names has to be readable on its own.
    """
    inner_readable, inner_private = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            _sort(entry, inner_readable, inner_private)
    readable += inner_readable if inner_private else []
    private += inner_private
    return bool(inner_private)


def _sort(entry: "os.DirEntry[str]", readable: list[str], private: list[str]) -> None:
    if entry.is_symlink():
        return
    if entry.path in SYSTEM_SECRETS:
        private.append(entry.path)
        return
    mode = entry.stat(follow_symlinks=False).st_mode
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    if mode & needed != needed or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        private.append(entry.path)
        return
    try:
        split = stat.S_ISDIR(mode) and _split(entry.path, readable, private)
    except PermissionError:
        private.append(entry.path)
        return
    if not split:
        readable.append(entry.path)


def interpreter() -> Path:
    """The Python that the launcher runs with: this one, without its virtual environment."""
    return Path(sys.executable).resolve()


def own_python(*arguments: str) -> list[str]:
    """How this program starts another Python: it sees no variable, no folder and no ``.pth`` file
    that somebody else put there."""
    return [str(interpreter()), "-I", "-S", *arguments]


def interpreter_places() -> tuple[Path, ...]:
    """What a launcher inside a namespace has to see."""
    return Path(sys.base_prefix).resolve(), interpreter(), INSIDE
