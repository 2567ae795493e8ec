"""What git attacks are played in: a checkout, the real GitLab, the attacker's server and folder."""

import base64
import hashlib
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.world import BOT_TOKEN, World

HONEST = ("shop.py", "test_discount.py")
"""The files of the improvement that the night is about: one changed, one new."""
ME = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
TOKEN_FORMS = (BOT_TOKEN.encode(), base64.b64encode(f"oauth2:{BOT_TOKEN}".encode()))
BARE_ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True)
class Places:
    """What an attacker knows and has: folders of its own, a server of its own, and a HOME."""

    home: Path
    lair: Path
    loot: Path
    evil: str
    project: str
    base: str

    def program(self, name: str = "run", then: str = "") -> Path:
        """A program that notes that it ran, with its arguments and environment."""
        self.lair.mkdir(exist_ok=True)
        path = self.lair / name
        noted = self.loot / name
        path.write_text(f'#!/bin/sh\n{{ echo "$0 $*"; env; }} >> {noted}\n{then}\n')
        path.chmod(0o755)
        return path


def configure(checkout: Path, key: str, value: object, file: str = ".git/config") -> None:
    """Write a git setting into a file, as an agent would."""
    run_git(checkout, "config", "--file", str(checkout / file), "--add", key, str(value))


def run_git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    """Git as the attacker's own tool; a failure fails the test."""
    argv = ["git", *ME, "-c", "init.defaultBranch=main", *args]
    env = {**BARE_ENV, "HOME": "/nonexistent"}
    done = subprocess.run(argv, cwd=folder, env=env, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, (args, done.stderr)
    return os.fsdecode(done.stdout).strip()


# --- the attacker's server ------------------------------------------------------------------------


@dataclass
class Evil:
    """The attacker's server: asks for credentials, and keeps every request whole."""

    url: str
    seen: list[str]


@contextmanager
def evil_server() -> Iterator[Evil]:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            seen.append(f"{self.requestline}\n{self.headers}")
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="GitLab"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_CONNECT = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield Evil(f"http://127.0.0.1:{http.server_port}", seen)
        http.shutdown()
        thread.join()


# --- a game ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gains:
    """What an attack has gained: names, and what was seen, for the message of a test."""

    names: frozenset[str]
    detail: str


@dataclass
class Game:
    """One attack: the checkout, and what the attacker owns."""

    world: World
    evil: Evil
    checkout: Path
    places: Places
    name: str

    @property
    def bare(self) -> Path:
        """The project in the real GitLab."""
        return self.world.project.bare_repository

    def refs(self) -> dict[str, str]:
        """All refs of the real project."""
        assert not (self.bare / "packed-refs").exists()
        files = (path for path in (self.bare / "refs").rglob("*") if path.is_file())
        return {str(path.relative_to(self.bare)): path.read_text().strip() for path in files}

    def files_of(self, revision: str) -> dict[str, bytes]:
        """Mode and content of every file that differs from the base, as the server has it."""
        asked = ("diff-tree", "-r", "-z", "--no-renames", self.places.base, revision)
        parts = run_git(self.bare, *asked).split("\0")
        rows = zip(parts[::2], parts[1::2], strict=False)
        return {path: self._side(meta) for meta, path in rows if meta}

    def _side(self, meta: str) -> bytes:
        _, mode, _, blob, _ = meta.split(" ")
        if not blob.strip("0"):
            return b"gone"
        if mode == "160000":
            return b"submodule " + blob.encode()
        data = raw_git(self.bare, "cat-file", "blob", blob)
        return data if mode == "100644" else f"{mode} ".encode() + data

    def parents_of(self, revision: str) -> list[str]:
        """The parents of a commit."""
        return run_git(self.bare, "rev-list", "--parents", "-n1", revision).split(" ")[1:]

    def gains(self) -> Gains:
        """What the attacker has got by now: programs run, connections, the token."""
        loot = b"".join(path.read_bytes() for path in self.places.loot.iterdir())
        said = "\n".join(self.evil.seen).encode()
        found = {
            "program": bool(loot),
            "connection": bool(said),
            "token": any(form in loot + said for form in TOKEN_FORMS),
        }
        detail = f"{[path.name for path in self.places.loot.iterdir()]} {self.evil.seen}"
        return Gains(frozenset(name for name, true in found.items() if true), detail)


def raw_git(folder: Path, *args: str) -> bytes:
    env = {**BARE_ENV, "HOME": "/nonexistent"}
    return subprocess.run(
        ["git", *args], cwd=folder, env=env, check=True, capture_output=True
    ).stdout


def copied_checkout(world: World, folder: Path) -> Path:
    """A copy of the world's checkout."""
    checkout = folder / "builds" / "shop"
    checkout.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", world.checkout, checkout], check=True)
    return checkout


def new_game(world: World, evil: Evil, checkout: Path, folder: Path, name: str) -> Game:
    """A game in that checkout, with new folders for the attacker."""
    places = Places(
        home=folder / "home",
        lair=folder / "lair",
        loot=folder / "loot",
        evil=evil.url,
        project=world.project.http_url,
        base=world.sha,
    )
    places.home.mkdir(parents=True)
    places.loot.mkdir()
    evil.seen.clear()
    world.gitlab.requests.clear()
    world.gitlab.credentials_seen.clear()
    return Game(world, evil, checkout, places, name)


def improve(game: Game) -> None:
    """The honest change; each game's has content that the server has not seen before."""
    for name in HONEST:
        text = f"# Of {game.name} in {game.checkout}\n\nimport {name[:4]}\n"
        (game.checkout / name).write_text(text)


# --- deeds that several attacks share -------------------------------------------------------------


def hook(checkout: Path, name: str, places: Places) -> None:
    """Plant a hook in ``.git``."""
    hooks = checkout / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    shutil.copy(places.program(name), hooks / name)


def hidden(checkout: Path, folder: str) -> None:
    """Plant a hook in a folder that is ``.git`` for some file system."""
    (checkout / folder / "hooks").mkdir(parents=True)
    (checkout / folder / "hooks/post-checkout").write_text("#!/bin/sh\n")


def blob_name(data: bytes) -> str:
    """The id that git will give a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def plant(objects: Path, name: str) -> None:
    """Plant a loose object with other bytes than its name says."""
    place = objects / name[:2] / name[2:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(zlib.compress(b"blob 5\0evil\n"))
