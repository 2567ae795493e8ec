"""The agent of a test night: a ``claude`` first on PATH that is scripted, or the real one, watched.

    agent = Agent(folder, {"analyze": [answer(FOUND)], "implement": [write("a.py", "x = 1\n")]})
    ...  # a night with agent.bin first on its PATH
    assert [bead.name for bead in agent.seen] == ["analyze-tests-1", "implement-tests-1"]

A play is for ``<bead>``, ``<bead>-<category>`` or ``<bead>-<category>-<attempt>``.
"""

from __future__ import annotations

import json
import marshal
import py_compile
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

Step = tuple[Any, ...]
Play = Sequence[Step]
REAL: Play = (("real",),)
"""Stands for the real CLI as the play of a bead."""

_HERE = Path(__file__).parent
_SHIM = """#!{python} -IS
import sys
sys.path.insert(0, {here!r})
sys.dont_write_bytecode = True
import fake_claude
sys.exit(fake_claude.main({folder!r}))
"""


@dataclass(frozen=True)
class Seen:
    """A bead's process as it was called, and what it saw of the checkout when it started.

    ``handoff`` is the text of the files in the hand-off folder, sorted by name; ``git_config`` and
    ``head`` are those of its throw-away ``.git``, which names a commit.
    """

    name: str
    pid: int
    argv: list[str]
    env: dict[str, str]
    prompt: str
    cwd: str
    tree: dict[str, list[Any]]
    git_status: str | None
    git_config: str
    head: str
    handoff: list[str]

    @property
    def bead(self) -> str:
        return self.name.partition("-")[0]

    @property
    def last_failure(self) -> str:
        """What the packaged prompt says of the attempt before."""
        mark = "why_the_last_attempt_failed>"
        return self.prompt.partition(f"<{mark}")[2].partition(f"</{mark}")[0].strip()

    def option(self, name: str) -> str:
        """The value of an option of the command line."""
        return self.argv[self.argv.index(name) + 1]

    def options(self, name: str) -> list[str]:
        """All values of an option up to the next one."""
        rest = self.argv[self.argv.index(name) + 1 :]
        end = next((n for n, word in enumerate(rest) if word.startswith("--")), len(rest))
        return rest[:end]


class Agent:
    """The scripted agent; ``plays`` may be changed between nights by ``script``."""

    def __init__(self, folder: Path, plays: Mapping[str, Play], cli: Path | None = None) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self._cli = cli
        (folder / "seen").mkdir(parents=True)
        self.bin.mkdir()
        self.script(plays)
        self.played_by(Path(sys.executable).resolve())

    def played_by(self, python: Path) -> None:
        """Make the executable, for this interpreter."""
        _compile()
        shim = self.bin / "claude"
        shim.write_text(_SHIM.format(python=python, here=str(_HERE), folder=str(self.folder)))
        shim.chmod(0o755)

    def script(self, plays: Mapping[str, Play]) -> None:
        """What the beads do from now on."""
        real = [name for name, play in plays.items() if tuple(play) == REAL]
        known = {name: play for name, play in plays.items() if name not in real}
        data = {"plays": known, "real": real, "cli": str(self._cli)}
        plain = json.loads(json.dumps(data))  # lists alone: what a CLI would get
        (self.folder / "script").write_bytes(marshal.dumps(plain, 4))

    def ask_git(self) -> None:
        """From now on each bead's process notes what git says of the checkout."""
        (self.folder / "asks-git").touch()

    @property
    def seen(self) -> list[Seen]:
        """The beads' processes, in the order of their start."""
        files = sorted((self.folder / "seen").iterdir())
        return [Seen(**marshal.loads(file.read_bytes())) for file in files]

    @property
    def names(self) -> list[str]:
        return [bead.name for bead in self.seen]

    @property
    def texts(self) -> dict[str, str]:
        """All that the beads were given and saw, as texts by name."""
        seen = enumerate(self.seen)
        return {f"{n} {b.name} {part}": str(getattr(b, part)) for n, b in seen for part in vars(b)}

    @property
    def hanging(self) -> bool:
        """True once a bead has come to its ``hang``."""
        return (self.folder / "hanging").exists()

    @property
    def interrupted(self) -> bool:
        """True once a bead that hung has got SIGINT, the first thing that ends an agent."""
        return (self.folder / "interrupted").exists()

    def last(self, name: str) -> Seen:
        """The last process of a bead, by the beginning of its name."""
        return [bead for bead in self.seen if bead.name.startswith(name)][-1]


@cache
def _compile() -> None:
    """Once for all: a shim in a sandbox could not keep what it compiles."""
    py_compile.compile(str(_HERE / "fake_claude.py"))


# --- steps --------------------------------------------------------------------------------------


def answer(value: object) -> Step:
    """The structured output of the result."""
    return ("answer", value)


def handoff(text: str) -> Step:
    """Write the hand-off file, as a CLI without structured output would."""
    return ("handoff", text)


def say(text: str) -> Step:
    """A message of text."""
    return ("say", text)


def use(tokens: int) -> Step:
    """A message that has used so many output tokens."""
    return ("use", tokens)


def cost(usd: float | None, tokens: int = 100) -> Step:
    """What the result says of cost and tokens, which is the CLI's own word."""
    return ("cost", usd, tokens)


def spend(usd: float) -> Step:
    """Ask the model for an answer of that price; ``shop.bill`` is an endpoint that gives it."""
    return ("spend", usd)


def write(path: str, text: str) -> Step:
    """Write a file, in the checkout unless the path is absolute."""
    return ("write", path, text)


def append(path: str, text: str) -> Step:
    """Add to a file."""
    return ("append", path, text)


def sh(command: str) -> Step:
    """Run a shell command in the checkout, reported as a use of Bash."""
    return ("sh", command)


def deny(command: str) -> Step:
    """A command that the CLI refused."""
    return ("deny", command)


def retry(status: int) -> Step:
    """The CLI reports that the endpoint failed and that it tries again."""
    return ("retry", status)


def fail(subtype: str = "error_during_execution", text: str = "it broke") -> Step:
    """The result is an error, the exit status 1."""
    return ("error", subtype, text)


def raw(text: str) -> Step:
    """Print anything."""
    return ("raw", text)


def flood(size: int, line: int = 1000) -> Step:
    """Print so many bytes in lines of that length; 0: all in one line."""
    return ("flood", size, line)


def sleep(seconds: float) -> Step:
    """Do nothing for a while."""
    return ("sleep", seconds)


def stubborn() -> Step:
    """Ignore SIGINT and SIGTERM from now on."""
    return ("stubborn",)


def hang() -> Step:
    """Wait for ever; ``Agent.hanging`` tells when."""
    return ("hang",)


def chatter() -> Step:
    """Print something ten times a second, for ever."""
    return ("chatter",)


def daemon(writes: str) -> Step:
    """Leave a process in a session of its own that goes on writing to a file."""
    return ("daemon", writes)


def crash(signal_number: int) -> Step:
    """End by a signal."""
    return ("crash", signal_number)


def leave(status: int) -> Step:
    """End at once, without a result."""
    return ("exit", status)


def plays(*parts: Mapping[str, Iterable[Step]]) -> dict[str, Play]:
    """Several scripts as one; the later ones win."""
    return {name: tuple(play) for part in parts for name, play in part.items()}
