"""Well-known paths: of the system, of secrets in it, and of this program."""

import sys
from pathlib import Path

PROGRAM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
STORES = ("/nix/store", "/gnu/store")
SYSTEM_FOLDERS = ("/usr", *PROGRAM_FOLDERS, *STORES, "/opt")
PACKAGE_FOLDERS = (
    *(f"/usr{folder}" for folder in PROGRAM_FOLDERS),
    *("/usr/libexec", "/usr/include", "/usr/share", "/usr/games"),
    *PROGRAM_FOLDERS,
    *STORES,
)
"""Folders that the distribution's packages fill; people install into the rest of ``/usr`` and into
``/opt``."""
KERNEL_FOLDERS = ("/proc", "/sys")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM_SETTINGS = "/etc"
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
"""Files in HOME that often contain credentials: no agent may read them, which the proof checks."""
SYSTEM_SECRETS = frozenset(
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d"
    " /etc/gitlab-runner /etc/ssl/private /etc/ssh".split()
)
"""Private whatever their mode is: an agent of an earlier night may have changed that."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's name
INSIDE = Path(__file__).parent / "inside"


def find_interpreter() -> Path:
    """The Python that runs the launcher: that of this process, without its virtual environment."""
    return Path(sys.executable).resolve()


def build_python_command(*arguments: str) -> list[str]:
    """The command of another Python that loads no code that others may have planted."""
    # -I ignores variables and the working folder, -S ``.pth`` files (Python's "Command line").
    return [str(find_interpreter()), "-I", "-S", *arguments]


def build_inside_command(module: str, *arguments: str) -> list[str]:
    """The command that runs ``main`` of a module of ``inside``."""
    return build_python_command(str(INSIDE / "launcher.py"), module, *arguments)


def list_interpreter_paths() -> tuple[Path, ...]:
    """The paths that a launcher inside a namespace has to see."""
    return Path(sys.base_prefix).resolve(), find_interpreter(), INSIDE
