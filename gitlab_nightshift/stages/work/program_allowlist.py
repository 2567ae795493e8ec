"""The exec gate on PATH: the programs that an agent finds by name, and no others.

It guides agents but is no security boundary: a program can still be called by its path. A command
of ``allowed_commands`` is a small script that checks its arguments and starts the program with the
job's full PATH, which builds need. Everything else that an agent starts gets the short PATH.
"""

import dataclasses
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping, Set
from pathlib import Path, PurePosixPath

from gitlab_nightshift.policy.gates import any_command
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.tool_access import read_interpreter
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_search_path

BASE = tuple(
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
"""Gets the short PATH even if allowed: an alias that begins with ! starts any program (alias.*,
git-config(1))."""
SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
WRAPPERS: Mapping[str, tuple[str, ...]] = {"gradlew": ("java",), "mvnw": ("java",)}
"""Wrapper scripts in the checkout, and the programs that they look up on PATH, here if JAVA_HOME is
not set."""


def restrict_programs(boundary: Boundary, work: WorkContext, cli: Path) -> Boundary:
    """Add a program allowlist to the boundary, unless the exec gate is open, and log it.

    ``cli`` is the agent's own program.
    """
    emit = work.emit
    if any_command(work.settings):
        emit(Note("exec: any command (policy.gates.exec: auto_allow)"))
        return boundary
    # The usual tools come from the system's folders alone: an agent could write its own sed into
    # a folder of the checkout on PATH.
    system = boundary.build_search_path(build_search_path(work.env, work.checkout))
    full_path = build_search_path(work.env, work.checkout, boundary.programs)
    path = boundary.build_search_path(full_path)
    allowed = _parse_commands(work.allowed_commands, work.checkout)
    # A shell script that is called by its path may start any program.
    called_by_path = (row for row in allowed if "/" in shlex.split(row[0])[0])
    if script := next((row[0] for row in called_by_path if not SHELLS.isdisjoint(row[1])), ""):
        emit(Note(f"exec: PATH is not restricted, as it is unknown what {script} starts"))
        return boundary
    arguments: dict[str, list[list[str]]] = {}
    for _, names in allowed:
        for name, exact in names.items():
            arguments.setdefault(name, []).append(exact)
    folder = boundary.scratch / "path"
    _fill_folder(folder, (path, system), arguments, find_cli_interpreter(cli))
    more = ", ".join(sorted({each.name for each in folder.iterdir()} - {*BASE}))
    emit(Note(f"exec: agents have on PATH git, the shell and its usual tools; {more or 'no more'}"))
    return dataclasses.replace(boundary, allowlist=folder, read_only=(*boundary.read_only, folder))


def _parse_commands(
    commands: Iterable[str], checkout: Path
) -> list[tuple[str, dict[str, list[str]]]]:
    """Each command with the programs that it looks up on PATH, and the exact arguments of each
    (none: any)."""
    parsed = []
    for command in commands:
        program, *words = shlex.split(command)
        if "/" not in program:
            names = {program: words}
        elif needed := WRAPPERS.get(PurePosixPath(program).name):
            names = {name: [] for name in needed}
        else:
            interpreter = read_interpreter(checkout / program)
            names = {PurePosixPath(interpreter).name: []} if interpreter else {}
        parsed.append((command, names))
    return parsed


def find_cli_interpreter(cli: Path) -> str:
    """The interpreter that the agent's own CLI looks up by name, "" for none."""
    word = read_interpreter(cli)
    return "" if "/" in word else word


def _fill_folder(
    folder: Path, paths: tuple[str, str], allowed: Mapping[str, list[list[str]]], interpreter: str
) -> None:
    """Create the folder of an agent's PATH. ``paths`` are the full PATH, and that without the
    checkout's folders; ``allowed`` are the arguments of programs by their names."""
    path, system = paths
    folder.mkdir(mode=0o755)
    usual = {*BASE, interpreter}
    found = _find_programs(usual - {""}, system) | _find_programs(allowed.keys() - usual, path)
    for name, program in found.items():
        if name in allowed and name not in ALWAYS_RESTRICTED:
            script = folder / name
            script.write_text(_build_script(program, allowed[name], path, name in usual))
            script.chmod(0o555)
        else:
            (folder / name).symlink_to(program)


def _find_programs(names: Set[str], path: str) -> dict[str, str]:
    """The path of each program that is found."""
    found: dict[str, str] = {}
    for folder in path.split(os.pathsep):
        # Listed once: looking up every name in every folder takes longer.
        for name in (names & _list_folder(folder, names)) - found.keys():
            if program := shutil.which(name, path=folder):
                found[name] = program
    return found


def _list_folder(folder: str, names: Set[str]) -> Set[str]:
    """The names that may be in a folder."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names alone
    except PermissionError:  # it may be entered all the same: x without r (path_resolution(7))
        return names
    except OSError:
        return frozenset()


def _build_script(program: str, allowed: list[list[str]], path: str, base: bool) -> str:
    """A script that starts the program with the full PATH for allowed arguments. With others it
    starts only a ``base`` program, with the short PATH."""
    start = f'exec {shlex.quote(program)} "$@"'
    lines = ["#!/bin/sh", "# Made by nightshift: policy.gates.exec"]
    for words in allowed:
        tests = [f'[ "${{{n}}}" = {shlex.quote(word)} ]' for n, word in enumerate(words, 1)]
        exact = " && ".join([f"[ $# -eq {len(words)} ]", *tests]) if words else "true"
        lines.append(f"if {exact}; then PATH={shlex.quote(path)}; export PATH; {start}; fi")
    name = PurePosixPath(program).name
    hint = shlex.quote("; allowed: " + ", ".join(shlex.join([name, *each]) for each in allowed))
    refusal = f'echo "nightshift: not allowed: {name} $*"{hint} >&2'
    # 126: found, but not to be executed (POSIX shell, Exit Status for Commands).
    return "\n".join([*lines, *([start] if base else [refusal, "exit 126"]), ""])
