"""Careless readers of a tree, and what each of them gets wrong."""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.attacks.git_world import BARE_ENV, HONEST, Game, run_git

SECRET = "S3CRET-of-another-project"
MOST_FILES = 1000
PATIENCE_S = 60.0
"""Seconds after which a reader counts as hanging; less where an attack is about that."""

# Reads whatever it finds, along every link. Files that it has read go to stdout; an alarm ends it.
FOLLOWER = """
import os, signal, sys
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
for folder, _, names in os.walk(sys.argv[1], followlinks=True):
    if "/.git" not in folder:
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                print(os.path.join(folder, name))
                while data := file.read(1 << 20):
                    if b"S3CRET" in data:
                        print("S3CRET")
"""


def follow(game: Game, _before: Path) -> set[str]:
    """Open every file by its path and read it to its end."""
    argv = [*_without_rights(), sys.executable, "-c", FOLLOWER, str(game.checkout), str(PATIENCE_S)]
    env = {"PATH": os.environ["PATH"], "PASSWORD": SECRET}
    done = subprocess.run(argv, env=env, capture_output=True, timeout=300, check=False)
    if done.returncode == -signal.SIGALRM:
        return {"hangs"}
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    read = {line for line in lines if line.startswith("/")}
    found = {
        "secret": "S3CRET" in lines,
        "fails": done.returncode != 0,
        "many": len(read) > MOST_FILES,
        "lost": len(read) < _count(game.checkout),
    }
    return {name for name, true in found.items() if true}


def _without_rights() -> list[str]:
    """Root reads everything: the reader is a plain one."""
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    return [setpriv, "--inh-caps=-all", "--bounding-set=-all"] if setpriv else []


def _count(checkout: Path) -> int:
    """How many files there are, once every folder can be entered."""
    _open_all(checkout)
    out = subprocess.run(
        ["find", ".", "-name", ".git", "-prune", "-o", "-type", "f", "-print0"],
        cwd=checkout,
        capture_output=True,
        check=True,
    ).stdout
    return out.count(b"\0")


def _open_all(checkout: Path) -> None:
    """For a plain user who looks; git knows nothing of these modes."""
    subprocess.run(["chmod", "-R", "u+rwX", checkout], check=True)


def by_stat(game: Game, before: Path) -> set[str]:
    """Compare size and time with what they were; the rest is taken for unchanged."""

    def looks(top: Path, path: str) -> tuple[int, int]:
        status = (top / path).stat()
        return status.st_size, status.st_mtime_ns

    def differs(path: str) -> bool:
        return (game.checkout / path).read_bytes() != (before / path).read_bytes()

    same = [p for p in _tracked(before) if looks(before, p) == looks(game.checkout, p)]
    return {"lost"} if any(map(differs, same)) else set()


def _tracked(checkout: Path) -> list[str]:
    return [path for path in run_git(checkout, "ls-files", "-z").split("\0") if path]


def by_git_add(game: Game, before: Path) -> set[str]:
    """``git add -A`` in the agent's tree, with the agent's ``.git``."""
    argv = ["git", "-C", str(game.checkout), "add", "-A"]
    subprocess.run(argv, env={**BARE_ENV, "HOME": "/nonexistent"}, capture_output=True, check=False)
    got, honest = _staged(game.checkout), honest_tree(game, before)
    found = {
        "link": any(entry.split(" ")[0] in ("120000", "160000") for entry in got.values()),
        "lost": any(got.get(path) != entry for path, entry in honest.items()),
        "more": bool(got.keys() - honest.keys()),
    }
    return {name for name, true in found.items() if true}


def _staged(checkout: Path) -> dict[str, str]:
    rows = run_git(checkout, "ls-files", "-s", "-z").split("\0")
    return {row.split("\t", 1)[1]: row.split("\t", 1)[0] for row in rows if row}


def by_raw_bytes(game: Game, before: Path) -> set[str]:
    """Hash each file as it is."""
    honest = honest_tree(game, before)
    for path in HONEST:
        data = (game.checkout / path).read_bytes()
        name = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        if name != honest[path].split(" ")[1]:
            return {"other bytes"}
    return set()


def by_lines(game: Game, _before: Path) -> set[str]:
    """Take a listing's lines for names."""
    out = subprocess.run(["find", "."], cwd=game.checkout, capture_output=True, check=True).stdout
    lines = out.decode(errors="replace").splitlines()
    return {"lost"} if not all((game.checkout / line).exists() for line in lines) else set()


def by_copy(game: Game, before: Path) -> set[str]:
    """Copy what is new with all of its modes."""
    copy = before.parent / "copy"
    subprocess.run(["cp", "-a", game.checkout, copy], check=True)
    setuid = [p for p in copy.rglob("*") if p.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    return {"setuid"} if any(path.is_file() for path in setuid) else set()


READERS: dict[str, Callable[[Game, Path], set[str]]] = {
    "follow": follow,
    "stat": by_stat,
    "git add": by_git_add,
    "raw": by_raw_bytes,
    "lines": by_lines,
    "copy": by_copy,
}


def honest_tree(game: Game, before: Path) -> dict[str, str]:
    """What ``git add -A`` stages of the same files with the ``.git`` from before, and an index
    that remembers no times; the night's own products are none of them."""
    _restage(game, before)
    return _staged(before.parent / "twin")


def honest_tree_id(game: Game, before: Path) -> str:
    """The same as the id of a tree."""
    _restage(game, before)
    return run_git(before.parent / "twin", "write-tree")


def _restage(game: Game, before: Path) -> None:
    twin = before.parent / "twin"
    _open_all(game.checkout)
    shutil.rmtree(twin, ignore_errors=True)
    subprocess.run(["cp", "-a", game.checkout, twin], check=True)
    subprocess.run(["rm", "-rf", twin / ".git", twin / "nightshift"], check=True)
    subprocess.run(["cp", "-a", before / ".git", twin / ".git"], check=True)
    (twin / ".git/index").unlink()
    run_git(twin, "read-tree", "HEAD")
    run_git(twin, "add", "-A")
