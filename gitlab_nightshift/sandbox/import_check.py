"""Whether this program would load what an agent writes: harmless files are planted and looked for.

They are planted where agents write and the job's environment points to, under names that nobody
else has, and removed at once. Nothing planted is ever run, only found or not.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from gitlab_nightshift.sandbox.process import capture
from gitlab_nightshift.sandbox.system_paths import build_python_command
from gitlab_nightshift.sealed_start import lies_in

MOST_FOLDERS = 20
_NOT_THERE = "cannot open shared object file"
"""The loader's words for a library that it did not find; one that it found is no library."""

Way = Callable[[str, Path], str]
"""Tries one kind of file by its name, in the folder; "" where it was not found, else how it was."""
ListFiles = Callable[[], Collection[str]]


def list_named_folders(env: Mapping[str, str], checkout: Path) -> tuple[Path, ...]:
    """The folders of a checkout that a job's variables name, and its top; none behind a link of the
    project's that leads out, because this program, which may be root, writes there."""
    parts = (part for value in env.values() for part in value.split(os.pathsep))
    named = (Path(part) for part in parts if part.startswith("/"))
    inside = (path for path in named if path.resolve().is_relative_to(checkout.resolve()))
    return tuple(dict.fromkeys((checkout, *(path for path in inside if path.is_dir()))))[
        :MOST_FOLDERS
    ]


def try_own_code(
    folders: Sequence[Path], list_setting_files: ListFiles
) -> Iterator[tuple[str, str]]:
    """What was tried, and how it was found: "" where it was not. ``list_setting_files`` gives the
    files that git reads this machine's settings from."""
    for folder in folders:
        if not os.access(folder, os.W_OK):  # an agent has no more rights than this program
            continue
        name = f"nightshift_planted_{secrets.token_hex(8)}"
        with _plant_files(folder, name):
            for kind, way in _WAYS.items():
                yield f"load {kind} of {folder}", way(name, folder)
        yield f"read git's settings in {folder}", _find_setting(list_setting_files, folder)


@contextlib.contextmanager
def _plant_files(folder: Path, name: str) -> Iterator[None]:
    """A file of each kind; no file of the project's is touched."""
    (module, compiled, path_file, library, program) = paths = (
        folder / f"{name}_a.py",
        folder / f"{name}_b.pyc",
        folder / f"{name}.pth",
        folder / f"lib{name}.so",
        folder / name,
    )
    try:
        for path in (module, compiled, library):
            path.write_bytes(b"")
        path_file.write_text(f"import {name}_a\n")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        importlib.invalidate_caches()
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _find_module(name: str, _folder: Path) -> str:
    return _find_origin(f"{name}_a")


def _find_compiled(name: str, _folder: Path) -> str:
    return _find_origin(f"{name}_b")


def _find_origin(module: str) -> str:
    found = importlib.util.find_spec(module)
    return f"imported from {found.origin}" if found else ""


def _start_beside(name: str, folder: Path) -> str:
    """Another Python of this program, in the folder that holds the ``.pth`` file."""
    command = build_python_command("-c", f"import {name}_a")
    done = capture(command, cwd=folder, env=dict(os.environ))
    return "another Python of ours imports it" if done.ok else ""


def _load_library(name: str, _folder: Path) -> str:
    try:
        ctypes.CDLL(f"lib{name}.so")
    except OSError as error:
        return "" if _NOT_THERE in str(error) else f"found: {error}"
    return "loaded"


def _find_program(name: str, _folder: Path) -> str:
    return shutil.which(name) or ""


def _find_setting(list_files: ListFiles, folder: Path) -> str:
    """A file of settings below the folder that git reads, whatever stands in it."""
    return next((origin for origin in list_files() if lies_in(Path("/", origin), folder)), "")


_WAYS: dict[str, Way] = {
    "a module": _find_module,
    "a compiled module": _find_compiled,
    "a .pth file": _start_beside,
    "a library": _load_library,
    "a program": _find_program,
}
