"""The exec gate on PATH: a folder of the programs that an agent finds by name, and no others.

It guides agents but is no security boundary: a program can still be called by its path. For a
command of ``allowed_commands`` the folder has a small script that checks the arguments and starts
the program with the job's full PATH, which builds need. All else has only this folder on its PATH.
"""

import dataclasses
import os
import shlex
import shutil
from collections.abc import Mapping, Set
from pathlib import Path, PurePosixPath

from gitlab_nightshift.policy.gates import allows_any_command
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.tool_access import read_interpreter
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path

USUAL_PROGRAMS = tuple(
    """sh bash dash env git [ b2sum base32 base64 basename cat chmod cksum comm cp csplit cut
    date dd df dir dirname du echo expand expr factor false fmt fold head hostname id
    install join link ln logname ls md5sum mkdir mkfifo mktemp mv nice nl nohup nproc numfmt
    od paste pathchk pr printenv printf ptx pwd readlink realpath rm rmdir seq sha1sum
    sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum
    sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq
    unlink users vdir wc which who whoami yes find xargs grep egrep fgrep rg ag sed awk gawk
    mawk diff diff3 sdiff cmp patch file tree less more column hexdump xxd strings jq tar
    gzip gunzip zcat bzip2 bunzip2 xz unxz zstd unzip zip ps pgrep kill getopt tput clear
    locale""".split()
)
"""What shells, git and agents need to explore and to edit: nothing that uses a network,
changes a user, or runs another language than the shell's own."""
ALWAYS_RESTRICTED = frozenset({"git"})
"""Programs that never get the full PATH: a git alias that begins with ! starts any program
(alias.*, git-config(1))."""
SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
WRAPPERS: Mapping[str, tuple[str, ...]] = {"gradlew": ("java",), "mvnw": ("java",)}
"""Wrapper scripts in the checkout, and the programs that they look up on PATH, here if JAVA_HOME is
not set."""


def restrict_programs(boundary: Boundary, work: WorkContext, cli: Path) -> Boundary:
    """Add a program allowlist to the boundary, unless the exec gate is open, and log it.

    ``cli`` is the agent's own program.
    """
    emit = work.emit
    if allows_any_command(work.settings):
        emit(Note("exec: any command (policy.gates.exec: auto_allow)"))
        return boundary
    # The usual tools come from the system's folders alone: an agent could write its own sed into
    # a folder of the checkout on PATH.
    system_path = boundary.filter_search_path(work.search_path)
    full_path = boundary.filter_search_path(
        build_search_path(work.env, work.checkout, boundary.program_folders)
    )
    allowed: dict[str, list[list[str]]] = {}
    for command in work.allowed_commands:
        programs = _list_programs(command, work.checkout)
        # A shell script that is called by its path may start any program.
        if "/" in shlex.split(command)[0] and not SHELLS.isdisjoint(programs):
            emit(Note(f"exec: PATH is not restricted, as it is unknown what {command} starts"))
            return boundary
        for name, arguments in programs.items():
            allowed.setdefault(name, []).append(arguments)
    folder = boundary.scratch / "path"
    _fill_folder(folder, full_path, system_path, allowed, find_cli_interpreter(cli))
    more = ", ".join(sorted({each.name for each in folder.iterdir()} - {*USUAL_PROGRAMS}))
    emit(Note(f"exec: agents have on PATH git, the shell and its usual tools; {more or 'no more'}"))
    return dataclasses.replace(boundary, allowlist=folder, read_only=(*boundary.read_only, folder))


def _list_programs(command: str, checkout: Path) -> dict[str, list[str]]:
    """The programs that an allowed command looks up on PATH, with exact arguments ([]: any)."""
    program, *arguments = shlex.split(command)
    if "/" not in program:
        return {program: arguments}
    if needed := WRAPPERS.get(PurePosixPath(program).name):
        return {name: [] for name in needed}
    interpreter = read_interpreter(checkout / program)
    return {PurePosixPath(interpreter).name: []} if interpreter else {}


def find_cli_interpreter(cli: Path) -> str:
    """The interpreter that the agent's own CLI looks up by name, "" for none."""
    word = read_interpreter(cli)
    return "" if "/" in word else word


def _fill_folder(
    folder: Path,
    full_path: str,
    system_path: str,
    allowed: Mapping[str, list[list[str]]],
    interpreter: str,
) -> None:
    """Create the folder that is an agent's PATH. ``system_path`` is PATH without the checkout's
    folders, ``allowed`` has the lists of arguments with which a program may be started."""
    folder.mkdir(mode=0o755)
    usual = {*USUAL_PROGRAMS, interpreter}
    programs = _find_programs(usual - {""}, system_path)
    programs |= _find_programs(allowed.keys() - usual, full_path)
    for name, program in programs.items():
        if name in allowed and name not in ALWAYS_RESTRICTED:
            script = folder / name
            text = _build_script(program, allowed[name], full_path, is_usual=name in usual)
            script.write_text(text)
            script.chmod(0o555)
        else:
            (folder / name).symlink_to(program)


def _find_programs(names: Set[str], path: str) -> dict[str, str]:
    """Name → path of each program that exists."""
    programs: dict[str, str] = {}
    for folder in path.split(os.pathsep):
        # Listed once: looking up every name in every folder takes longer.
        for name in (names & _list_folder(folder, names)) - programs.keys():
            if program := shutil.which(name, path=folder):
                programs[name] = program
    return programs


def _list_folder(folder: str, names: Set[str]) -> Set[str]:
    """The names in a folder; those of ``names`` if it cannot be listed."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names alone
    except PermissionError:  # its files can be used if it has x without r (path_resolution(7))
        return names
    except OSError:
        return frozenset()


def _build_script(program: str, allowed: list[list[str]], full_path: str, *, is_usual: bool) -> str:
    """A script that starts the program with the full PATH for allowed arguments. With others it
    starts only a usual program, without changing PATH."""
    start = f'exec {shlex.quote(program)} "$@"'
    lines = ["#!/bin/sh", "# Made by nightshift: policy.gates.exec"]
    for words in allowed:
        tests = [f'[ "${{{n}}}" = {shlex.quote(word)} ]' for n, word in enumerate(words, 1)]
        same = " && ".join([f"[ $# -eq {len(words)} ]", *tests]) if words else "true"
        lines.append(f"if {same}; then PATH={shlex.quote(full_path)}; export PATH; {start}; fi")
    name = PurePosixPath(program).name
    hint = shlex.quote("; allowed: " + ", ".join(shlex.join([name, *each]) for each in allowed))
    refusal = f'echo "nightshift: not allowed: {name} $*"{hint} >&2'
    # 126: found, but not to be executed (POSIX shell, Exit Status for Commands).
    lines += [start] if is_usual else [refusal, "exit 126"]
    return "\n".join(lines) + "\n"
