"""``python build_bundle.py WHEEL LOCK ARCHIVE``: one archive that runs in any Linux image (x86_64).

It holds this interpreter with its loader and libraries, git, the wheel, and the packages that the
lock names. Nothing in it knows a folder: ``launcher.c`` finds the rest from where it lies. Needs
gcc, strip, ldd, git and pip, on a Linux with glibc.
"""

from __future__ import annotations

import compileall
import gzip
import json
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

LOADER = "ld-linux-x86-64.so.2"
BASE = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
"""The interpreter behind the virtual environment."""
UNUSED = shutil.ignore_patterns(
    *("__pycache__", "test", "tests", "idlelib", "turtledemo", "tkinter", "lib2to3", "ensurepip"),
    *("config-*", "pydoc_data", "site-packages", "dist-packages", "venv", "_test*"),
    *("_ctypes_test*", "_tkinter*", "_xx*", "*.a", "turtle.py", "distutils", "msilib", "_curses*"),
    *("readline*", "_gdbm*", "_dbm*", "nis.*", "ossaudiodev*", "crypt*", "_crypt*", "_sqlite3*"),
)
"""Parts of the standard library that need a library of their own, a screen, or a compiler."""
GIT_NAMES = ("git", "git-upload-pack", "git-receive-pack", "git-upload-archive")
REMOTE_NAMES = ("git-remote-http", "git-remote-https")
LARGEST_ARCHIVE = 60_000_000
TRIAL = """
git init -q project && cd project
git config user.name Tester && git config user.email tester@example.com
echo one >notes.txt && git add . && git commit -qm Begin
echo two >>notes.txt && git commit -qam "Go on"
"$0" check HEAD~1
"""
"""A change that is judged; ``$0`` is the program."""


def build(wheel: Path, lock: Path, archive: Path) -> None:
    """Write the archive. Exits with one line where this machine lacks something."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("make bundle: needs Linux on x86_64")
    missing = [name for name in ("gcc", "strip", "ldd", "git") if not shutil.which(name)]
    if missing:
        sys.exit(f"make bundle: needs {', '.join(missing)}")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / f"nightshift-{version}"
        copy_interpreter(root)
        install_packages(root, wheel, lock)
        copied = [*copy_git(root), *copy_libraries(root)]
        unlicensed = copy_licences(root, copied)
        make_launchers(root)
        finish(root, version, unlicensed)
        write_archive(root, archive)
    if fault := find_fault(archive):
        archive.unlink()
        sys.exit(f"make bundle: what was built does not work: {fault}")
    if archive.stat().st_size > LARGEST_ARCHIVE:
        sys.exit(f"make bundle: {archive} has more than {LARGEST_ARCHIVE // 1_000_000} MB")


def copy_interpreter(root: Path) -> None:
    """The interpreter that runs this, and its standard library, where it looks for it."""
    (root / "libexec").mkdir(parents=True)
    shutil.copy(BASE, root / "libexec/python3")
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    shutil.copytree(library, root / library.relative_to(sys.base_prefix), ignore=UNUSED)
    find_packages(root).mkdir(parents=True, exist_ok=True)


def find_packages(root: Path) -> Path:
    """Where the interpreter looks for packages below ``root``: Debian's has places of its own."""
    ask = "import site, sys; print(site.getsitepackages(sys.argv[1:])[-1])"
    return Path(run(str(BASE), "-I", "-c", ask, str(root)).strip())


def install_packages(root: Path, wheel: Path, lock: Path) -> None:
    """What the lock names, by hash, and the wheel; as wheels alone, so that nothing is run."""
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    packages = find_packages(root)
    target = ["--no-deps", "--no-compile", "--target", str(packages)]
    only = ["--only-binary", ":all:", "--require-hashes", "-r", str(lock)]
    run(*pip, *target, *only)
    run(*pip, *target, "--no-index", str(wheel))
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for path in (*packages.glob("*/direct_url.json"), *packages.glob("*/RECORD")):
        path.unlink()  # they name this machine's folders


def copy_git(root: Path) -> list[Path]:
    """git, and what it speaks http with; where both were."""
    core = Path(run("git", "--exec-path").strip())
    git = Path(shutil.which("git") or "git").resolve()
    remote = (core / "git-remote-http").resolve()
    shutil.copy(git, root / "libexec/git")
    shutil.copy(remote, root / "libexec/git-remote-http")
    (root / "share/templates").mkdir(parents=True)
    return [git, remote]


def copy_libraries(root: Path) -> list[Path]:
    """The shared libraries that anything in the bundle asks for, and the loader; all stripped.
    Says where they were."""
    packages = find_packages(root)
    programs = [path for path in list_files(root) if is_elf(path)]
    needed = {name: place for path in programs for name, place in find_libraries(path)}
    copied: list[Path] = []
    for name, place in needed.items():
        if not (root / "lib" / name).exists() and not Path(place).is_relative_to(root):
            copied.append(Path(place).resolve())
            shutil.copy(copied[-1], root / "lib" / name)
    for path in [path for path in list_files(root) if is_elf(path)]:
        path.chmod(0o755)
        if not path.is_relative_to(packages):  # a wheel stays as its hash says
            run("strip", "--strip-unneeded", str(path))
    return copied


def copy_licences(root: Path, copied: list[Path]) -> list[str]:
    """The licence texts of git, the libraries and Python, as Debian's packages hold them. Returns
    the names of the files for which this machine has none: they are said in ``bundle.json``."""
    (root / "share/licences").mkdir(parents=True)
    unlicensed: list[str] = []
    for file in copied:
        text = find_licence(file)
        if text is None:
            unlicensed.append(file.name)
        else:
            shutil.copy(text, root / "share/licences" / text.parent.name)
    return sorted(unlicensed)


def find_licence(file: Path) -> Path | None:
    """The text in the package that a file came with; None where no package says so."""
    if not (dpkg := shutil.which("dpkg")):
        return None
    merged = str(file).removeprefix("/usr")  # /lib and /usr/lib are one; dpkg knows one name
    for name in (str(file), merged, f"/usr{merged}"):
        done = subprocess.run([dpkg, "-S", name], check=False, capture_output=True, text=True)
        package = done.stdout.partition(": ")[0].partition(":")[0]
        text = Path("/usr/share/doc", package, "copyright")
        if package and text.is_file():
            return text
    return None


def find_libraries(program: Path) -> Iterator[tuple[str, str]]:
    """Each library's name, and where it is on this machine."""
    text = run("ldd", str(program))
    if "not found" in text:
        sys.exit(f"make bundle: {program}: {text.strip()}")
    yield from re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE)
    for place in re.findall(rf"^\s*(/\S*{re.escape(LOADER)})", text, re.MULTILINE):
        yield LOADER, place


def make_launchers(root: Path) -> None:
    """The programs of the bundle, each a name of one file."""
    first = root / "bin/nightshift"
    names = [root / "bin/python3", root / "git/git", *(root / "git-core" / n for n in GIT_NAMES)]
    for folder in ("bin", "git", "git-core"):
        (root / folder).mkdir()
    source = Path(__file__).with_name("launcher.c")
    options = ["-static", "-Os", "-s", "-Wall", "-Wextra", f'-DLOADER="{LOADER}"']
    run("gcc", *options, "-o", str(first), str(source))
    for path in (*names, *(root / "git-core" / name for name in REMOTE_NAMES)):
        os.link(first, path)


def finish(root: Path, version: str, unlicensed: list[str]) -> None:
    """Compiled once, by content and not by time; and a list of what is inside."""
    checked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for stale in [*root.rglob("__pycache__")]:
        shutil.rmtree(stale)
    if not compileall.compile_dir(
        root, quiet=1, workers=0, invalidation_mode=checked, stripdir=str(root)
    ):
        sys.exit("make bundle: a module cannot be compiled")
    inside = {
        "version": version,
        "python": platform.python_version(),
        "git": run("git", "--version").split()[2],
        "libraries": sorted(path.name for path in (root / "lib").glob("*.so*")),
        "without_licence_text": unlicensed,
        "taken_from": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
    }
    (root / "bundle.json").write_text(json.dumps(inside, indent=2) + "\n")


def write_archive(root: Path, archive: Path) -> None:
    """The same bytes for the same files: no times, no owners, sorted."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        tar.add(root, root.name, filter=forget_origin, recursive=False)
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root.parent)), filter=forget_origin, recursive=False)


def find_fault(archive: Path) -> str:
    """What goes wrong where the archive is unpacked and used, "" where nothing does."""
    with tempfile.TemporaryDirectory() as scratch:
        run("tar", "-xzf", str(archive), "-C", scratch)
        [program] = Path(scratch).glob("*/bin/nightshift")
        for command in ([str(program), "--version"], ["sh", "-ec", TRIAL, str(program)]):
            done = subprocess.run(
                command,
                cwd=scratch,
                env={"PATH": os.environ["PATH"], "HOME": scratch},
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                return f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()}"
    return ""


def forget_origin(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what differs from one build to the next; readable by every user."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def list_files(root: Path) -> Iterable[Path]:
    """All regular files below a folder."""
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


def is_elf(path: Path) -> bool:
    """True for a program or a library."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def run(*command: str) -> str:
    """Its output. Exits with what it said where it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make bundle: {' '.join(command[:3])}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:4]))
