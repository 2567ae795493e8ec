"""Checks whether this program would load files that an agent writes, by planting harmless ones.

They are planted in folders that agents may write and the job's variables name, under unique names,
and removed at once. Planted files are never run, only found or not.
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
_LIBRARY_NOT_FOUND = "cannot open shared object file"
"""glibc's error for a missing library; the planted one, which is empty, gives another."""

Attempt = Callable[[str, Path], str]
"""Tries to load one kind of file by name and folder; returns how it was found, "" if it was not."""
ListFiles = Callable[[], Collection[str]]


def list_named_folders(env: Mapping[str, str], checkout: Path) -> tuple[Path, ...]:
    """The folders of a checkout that a job's variables name, and its top. Not those behind a link
    that leads out of it: this program, which may be root, writes there."""
    parts = (part for value in env.values() for part in value.split(os.pathsep))
    named = (Path(part) for part in parts if part.startswith("/"))
    inside = (path for path in named if path.resolve().is_relative_to(checkout.resolve()))
    return tuple(dict.fromkeys((checkout, *(path for path in inside if path.is_dir()))))[
        :MOST_FOLDERS
    ]


def try_own_code(
    folders: Sequence[Path], list_setting_files: ListFiles
) -> Iterator[tuple[str, str]]:
    """Each attempt and how it found a planted file, "" if it did not. ``list_setting_files`` lists
    the files from which git reads this machine's settings."""
    for folder in folders:
        if not os.access(folder, os.W_OK):  # an agent has no more rights than this program
            continue
        name = f"nightshift_planted_{secrets.token_hex(8)}"
        with _plant_files(folder, name):
            for kind, attempt in _ATTEMPTS.items():
                yield f"load {kind} of {folder}", attempt(name, folder)
        yield f"read git's settings in {folder}", _find_setting(list_setting_files, folder)


@contextlib.contextmanager
def _plant_files(folder: Path, name: str) -> Iterator[None]:
    """Plant a file of each kind, without touching the project's own files."""
    (module, compiled, path_file, library, program) = paths = (
        folder / f"{name}_a.py",
        folder / f"{name}_b.pyc",
        folder / f"{name}.pth",
        folder / f"lib{name}.so",
        folder / name,
    )
    try:
        for path in (module, compiled, library):
            path.write_bytes(b"")  # empty, so that nothing happens if it is loaded after all
        path_file.write_text(f"import {name}_a\n")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        # Else a finder may know a folder from before (importlib.invalidate_caches).
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


def _start_python_in(name: str, folder: Path) -> str:
    """Another Python of this program, in the folder that holds the ``.pth`` file."""
    command = build_python_command("-c", f"import {name}_a")
    done = capture(command, cwd=folder, env=dict(os.environ))
    return "another Python of ours imports it" if done.ok else ""


def _load_library(name: str, _folder: Path) -> str:
    try:
        ctypes.CDLL(f"lib{name}.so")
    except OSError as error:
        return "" if _LIBRARY_NOT_FOUND in str(error) else f"found: {error}"
    return "loaded"


def _find_program(name: str, _folder: Path) -> str:
    return shutil.which(name) or ""


def _find_setting(list_files: ListFiles, folder: Path) -> str:
    """A settings file below the folder that git reads, whatever its content."""
    return next((origin for origin in list_files() if lies_in(Path("/", origin), folder)), "")


_ATTEMPTS: dict[str, Attempt] = {
    "a module": _find_module,
    "a compiled module": _find_compiled,
    "a .pth file": _start_python_in,
    "a library": _load_library,
    "a program": _find_program,
}
