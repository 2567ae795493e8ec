"""Access to the team's tools inside the boundary: ``agent_paths``, and programs that the job has
installed into its checkout (an activated virtual environment, ``node_modules/.bin``).

Agents may write to the checkout, so its programs count only in ignored folders: these are no part
of a change, and are restored before anything is proven. No trusted process looks there.
"""

import os
import shlex
import shutil
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.repository.git import Git, list_ignored
from gitlab_nightshift.repository.state_folder import list_adjacent_paths
from gitlab_nightshift.sandbox.probes import PRIVATE_FILES
from gitlab_nightshift.sandbox.system_paths import HOME_FILES, SYSTEM_FOLDERS
from gitlab_nightshift.sandbox.visible_home import MOST_LINKS, find_installation, find_tool_caches
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import list_parents, within

KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
"""Virtual file systems, which show and control more than a tool needs."""
MOST_INTERPRETERS = 3
"""Interpreters to follow by ``#!`` lines; execve(2) follows up to four."""
LONGEST_FIRST_LINE = 256
"""Bytes of a ``#!`` line that the kernel reads (BINPRM_BUF_SIZE, execve(2))."""


@dataclass(frozen=True)
class JobFolders:
    """The folders of a job: its home, the checkout, and this program's ``private`` folder."""

    home: Path
    checkout: Path
    private: Path

    def list_closed_paths(self) -> tuple[Path, ...]:
        """Paths that no setting may expose, directly or through a parent."""
        adjacent = list_adjacent_paths(self.checkout)
        return (self.home, *adjacent, self.private, *map(Path, (*PRIVATE_FILES, *KERNEL_FOLDERS)))

    def list_credentials(self) -> tuple[Path, ...]:
        """Existing files and folders in the home that usually hold credentials."""
        return tuple(filter(os.path.lexists, (self.home / name for name in HOME_FILES)))


def find_tool_folders(
    settings: Settings, env: Mapping[str, str], job_folders: JobFolders
) -> tuple[Path, ...]:
    """The folders and files of ``agent_paths``: as named, and with links resolved.

    ``~`` is the home; variables are those of ``agent_env``, HOME and CI_PROJECT_DIR. Raises
    NightshiftError E_CONFIG for a path that does not exist or that would expose secrets.
    """
    folders = {"HOME": str(job_folders.home), "CI_PROJECT_DIR": str(job_folders.checkout)}
    variables = {**_select_agent_env(settings, env), **folders}
    paths = [_resolve_tool(text, variables, job_folders) for text in settings.agent_paths]
    return tuple(dict.fromkeys(form for path in paths for form in (path, path.resolve())))


def _select_agent_env(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in settings.agent_env if env.get(name)}


def _resolve_tool(text: str, variables: Mapping[str, str], job_folders: JobFolders) -> Path:
    in_home = text == "~" or text.startswith("~/")
    try:
        expanded = string.Template(f"$HOME{text[1:]}" if in_home else text).substitute(variables)
    except KeyError as error:
        name = error.args[0]
        raise _build_error(text, f"{name} is not set, or agent_env does not name it") from None
    except ValueError:
        raise _build_error(text, "a $ that does not begin a variable") from None
    path = Path(os.path.normpath(job_folders.checkout / expanded))
    if not path.exists():
        raise _build_error(text, f"{path} does not exist")
    if exposed := find_exposed_path(path, job_folders):
        raise _build_error(text, f"this would open {exposed}; name a folder that holds only tools")
    return path


def _build_error(text: str, why: str) -> NightshiftError:
    return build_config_error(f"agent_paths: {text}: {why}")


def find_exposed_path(path: Path, job_folders: JobFolders) -> Path | None:
    """The closed path or credential that agents could read if ``path`` were opened, or None."""
    # Both forms count: the path may be a link into the home, and the home be behind a link.
    forms = {path, path.resolve()}
    if all(form.is_relative_to(job_folders.checkout) for form in forms):
        return None
    for closed in (*job_folders.list_closed_paths(), *job_folders.list_credentials()):
        if any(p.is_relative_to(form) for p in (closed, closed.resolve()) for form in forms):
            return closed
    # A part of the home or of a private folder may be opened, but no part of these.
    for closed in (*job_folders.list_credentials(), *map(Path, KERNEL_FOLDERS)):
        if any(form.is_relative_to(closed) for form in forms):
            return closed
    return None


def add_tool_caches(
    settings: Settings, env: Mapping[str, str], home: Path, checkout: Path
) -> tuple[Settings, Mapping[str, str]]:
    """The settings and environment as if ``agent_paths`` and ``agent_env`` named the caches of
    build tools. Variables that the team named keep their values."""
    caches = find_tool_caches(env, home, checkout)
    team_names = settings.agent_env
    variables = {name: text for name, text in caches.variables.items() if name not in team_names}
    folders = [str(folder) for folder in caches.folders]
    settings = settings.with_values(
        agent_env=[*team_names, *variables],
        agent_paths=list(dict.fromkeys((*settings.agent_paths, *folders))),
    )
    return settings, {**env, **variables}


@dataclass(frozen=True)
class SandboxView:
    """What a process in the sandbox sees: the checkout, the programs on its PATH (``search_path``),
    and other files for which ``is_readable`` is true."""

    search_path: str
    is_readable: Callable[[Path], bool]
    job_folders: JobFolders

    def can_read(self, path: Path) -> bool:
        """True if a program inside may read ``path``."""
        return path.is_relative_to(self.job_folders.checkout) or self.is_readable(path)

    def may_exist(self, path: Path) -> bool:
        """True if ``path`` exists, or is in the home, of which this process sees only parts."""
        home = self.job_folders.home
        return os.path.lexists(path) or (home != Path("/") and path.is_relative_to(home))


def check_tool_access(
    settings: Settings,
    commands: Sequence[str],
    env: Mapping[str, str],
    search_path: str,
    view: SandboxView,
    emit: Emit,
) -> None:
    """Check that ``commands`` find their programs inside; warn of variables that name hidden files.

    ``search_path`` is the PATH outside. For a program of ``verify_commands`` raises NightshiftError
    E_CONFIG with the folder to add to ``agent_paths``; for one implied by build files, warns. A
    program that exists nowhere is left to the baseline.
    """
    for command in commands:
        program = shlex.split(command)[0]
        if hidden := _find_hidden_program(program, search_path, view):
            text = (
                f"{program} needs {hidden}, which is hidden in the sandbox: add"
                f" {find_installation(hidden, view.job_folders.home)} to agent_paths"
                " (docs/recipes.md)"
            )
            if settings.verify_commands:
                raise build_config_error(f"verify_commands: {text}")
            emit(Note(f"`{command}` cannot run: {text}", warning=True))
    for name, value in _select_agent_env(settings, env).items():
        path = Path(value)
        if value.startswith("/") and view.may_exist(path) and not view.can_read(path.resolve()):
            text = f"{name} names {path}, which is hidden in the sandbox: add it to agent_paths"
            emit(Note(text, warning=True))


def _find_hidden_program(name: str, search_path: str, view: SandboxView) -> Path | None:
    """The first of a program and its interpreters that is unreadable inside: the file itself, or
    else the link to it. None if all are readable."""
    for program in _list_executables(name, search_path, view):
        if not view.can_read(real := program.resolve()):
            return real
        if not view.can_read(program):
            return program
    return None


def _list_executables(name: str, search_path: str, view: SandboxView) -> Iterator[Path]:
    """A program, then its interpreter if it is a script, and so on."""
    for _ in range(MOST_INTERPRETERS):
        program = _find_program(name, search_path, view)
        if program is None:
            return
        yield program
        name = read_interpreter(program)


def _find_program(name: str, search_path: str, view: SandboxView) -> Path | None:
    if "/" in name:
        program = view.job_folders.checkout / name
        return program if program.is_file() or view.may_exist(program) else None
    path = shutil.which(name, path=view.search_path) or shutil.which(name, path=search_path)
    return Path(path) if name and path else None


def read_interpreter(program: Path) -> str:
    """The interpreter in a script's ``#!`` line, "" without one."""
    try:
        with program.open("rb") as file:
            line = file.readline(LONGEST_FIRST_LINE)
    except OSError:
        return ""
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    # env(1) takes options and assignments before the program: #!/usr/bin/env -S A=b python3
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


VIRTUAL_ENV = "VIRTUAL_ENV"
"""The activated environment's folder, by which uv and poetry find it."""


def add_job_tools(
    settings: Settings,
    env: Mapping[str, str],
    git: Git,
    job_folders: JobFolders,
    emit: Emit,
    *,
    separate_checkout: bool = False,
) -> tuple[Settings, Mapping[str, str], tuple[Path, ...]]:
    """The settings and environment as if ``agent_paths`` and ``agent_env`` named tool caches and
    programs installed in the checkout; and the folders of these programs, for the PATH inside the
    sandbox only.

    ``separate_checkout``: work runs in another checkout, so the folders of programs in this one are
    opened for reading, and kept off the PATH of trusted processes.
    """
    top = job_folders.checkout
    settings, env = add_tool_caches(settings, env, job_folders.home, top)
    program_folders = find_program_folders(env, git, top, settings.output_dir)
    settings = add_linked_tools(settings, program_folders, job_folders, emit)
    if env.get(VIRTUAL_ENV) and Path(env[VIRTUAL_ENV], "bin").resolve() in program_folders:
        settings = settings.with_values(agent_env=[*settings.agent_env, VIRTUAL_ENV])
    if separate_checkout:
        env = {**env, "PATH": build_search_path(env, top)}
        agent_paths = dict.fromkeys(settings.agent_paths)
        for folder in program_folders:
            name = str(folder.relative_to(top.resolve()))
            # The outermost ignored folder is the virtual environment with its libraries.
            root = min(list_ignored(git, top.resolve(), (*list_parents(name), name)), key=len)
            agent_paths[str(top.resolve() / root)] = None
        settings = settings.with_values(agent_paths=list(agent_paths))
    return settings, env, program_folders


def find_program_folders(
    env: Mapping[str, str], git: Git, checkout: Path, output_dir: str
) -> tuple[Path, ...]:
    """The ignored folders of the checkout on the PATH, links resolved."""
    top = checkout.resolve()
    # Relative folders are skipped: an empty one means the current folder, too (POSIX, PATH).
    parts = [part for part in env.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    folders = dict.fromkeys(Path(part).resolve() for part in parts)
    inside = {str(f.relative_to(top)): f for f in folders if f.is_relative_to(top) and f.is_dir()}
    reserved = (".git", output_dir)
    names = [name for name in inside if not any(within(name, folder) for folder in reserved)]
    return tuple(inside[name] for name in list_ignored(git, checkout, names)) if names else ()


def add_linked_tools(
    settings: Settings, program_folders: tuple[Path, ...], job_folders: JobFolders, emit: Emit
) -> Settings:
    """The settings as if ``agent_paths`` named the installations to which links in these folders
    lead. Warns of those that must stay hidden."""
    agent_paths = list(settings.agent_paths)
    for path in dict.fromkeys(_list_installations(program_folders, job_folders)):
        if exposed := find_exposed_path(path, job_folders):
            text = f"PATH leads to {path}, which stays hidden, as it would expose {exposed}"
            emit(Note(f"{text}; install it in a folder that holds only tools", warning=True))
        elif str(path) not in agent_paths:
            agent_paths.append(str(path))
    return settings.with_values(agent_paths=agent_paths)


def _list_installations(folders: tuple[Path, ...], job_folders: JobFolders) -> Iterator[Path]:
    """The installations to which links in these folders lead, outside the checkout and system."""
    # Both the target of a link and the end of a chain of links: a virtual environment's python is a
    # link to a path such as /opt/bin/python3, itself perhaps a link into the installation.
    for folder in folders:
        links = [Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
        for link in sorted(links)[:MOST_LINKS]:
            for target in (Path(os.path.normpath(folder / link.readlink())), link.resolve()):
                in_checkout = target.is_relative_to(job_folders.checkout)
                in_system = any(within(str(target), folder) for folder in SYSTEM_FOLDERS)
                if not in_checkout and not in_system and target.exists():
                    yield find_installation(target, job_folders.home)
