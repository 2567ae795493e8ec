"""What the team's tools need inside the boundary: ``agent_paths``, and what is missing there."""

import os
import shlex
import shutil
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, config_error
from gitlab_nightshift.events import Emit, Note
from gitlab_nightshift.host.aside import kept_beside
from gitlab_nightshift.host.sandbox.attempts import PRIVATE_FILES
from gitlab_nightshift.host.sandbox.places import HOME_FILES
from gitlab_nightshift.settings import Settings

KERNEL = ("/proc", "/sys", "/dev")
INTERPRETERS = 3
"""How many programs may stand before one another in first lines (``#!``)."""
FIRST_LINE = 256


@dataclass(frozen=True)
class Ground:
    """Where a job keeps what: its home, the checkout, and our own ``private`` folder."""

    home: Path
    checkout: Path
    private: Path

    def closed(self) -> tuple[Path, ...]:
        """Places that no setting opens, with all that lies above them."""
        beside = kept_beside(self.checkout)
        return (self.home, *beside, self.private, *map(Path, (*PRIVATE_FILES, *KERNEL)))

    def credentials(self) -> tuple[Path, ...]:
        """Files and folders of the home that usually hold credentials, as far as they are there."""
        return tuple(p for name in HOME_FILES if os.path.lexists(p := self.home / name))


def tool_folders(settings: Settings, env: Mapping[str, str], ground: Ground) -> tuple[Path, ...]:
    """The folders and files of ``agent_paths``: as they are named, and what links lead to.

    ``~`` is the home; a variable is one of ``agent_env``, HOME or CI_PROJECT_DIR. Raises
    NightshiftError E_CONFIG for one that is not there or that would open a place of secrets.
    """
    own = {"HOME": str(ground.home), "CI_PROJECT_DIR": str(ground.checkout)}
    known = {**_named(settings, env), **own}
    named = [_tool(text, known, ground) for text in settings.agent_paths]
    return tuple(dict.fromkeys(place for path in named for place in (path, path.resolve())))


def _named(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in settings.agent_env if env.get(name)}


def _tool(text: str, known: Mapping[str, str], ground: Ground) -> Path:
    home = text == "~" or text.startswith("~/")
    try:
        whole = string.Template(f"$HOME{text[1:]}" if home else text).substitute(known)
    except KeyError as error:
        name = error.args[0]
        raise _wrong(text, f"{name} is not set, or agent_env does not name it") from None
    except ValueError:
        raise _wrong(text, "a $ that begins no variable") from None
    path = Path(os.path.normpath(ground.checkout / whole))
    if not path.exists():
        raise _wrong(text, f"{path} is not there")
    if opened := _opened(path, ground):
        raise _wrong(text, f"this would open {opened}; name a folder that holds only tools")
    return path


def _wrong(text: str, why: str) -> NightshiftError:
    return config_error(f"agent_paths: {text}: {why}")


def _opened(path: Path, ground: Ground) -> Path | None:
    """The closed place that somebody who may read ``path`` could read too."""
    ways = {path, path.resolve()}
    if all(way.is_relative_to(ground.checkout) for way in ways):
        return None
    for place in (*ground.closed(), *ground.credentials()):
        if any(p.is_relative_to(way) for p in (place, place.resolve()) for way in ways):
            return place
    for place in (*ground.credentials(), *map(Path, KERNEL)):
        if any(way.is_relative_to(place) for way in ways):
            return place
    return None


@dataclass(frozen=True)
class Inside:
    """What there is behind a boundary: ``path`` is PATH there, ``readable`` its other files."""

    path: str
    readable: Callable[[Path], bool]
    ground: Ground

    def sees(self, path: Path) -> bool:
        """True where a program inside may read ``path``."""
        return path.is_relative_to(self.ground.checkout) or self.readable(path)


def check_reach(
    settings: Settings, env: Mapping[str, str], path: str, inside: Inside, emit: Emit
) -> None:
    """See that the programs that ``verify_commands`` start are there inside; warn of variables.

    ``path`` is the job's own PATH. Raises NightshiftError E_CONFIG with the folder to add to
    ``agent_paths``; a program that is nowhere is left to the baseline.
    """
    for command in settings.verify_commands:
        word = shlex.split(command)[0]
        if hidden := _hidden(word, path, inside):
            raise config_error(
                f"verify_commands: {word} needs {hidden}, which the sandbox does not open: add"
                f" {_folder_of(hidden, inside.ground.home)} to agent_paths (docs/recipes.md)"
            )
    for name, place in hidden_variables(_named(settings, env), inside).items():
        text = f"{name} names {place}, which the sandbox does not open (agent_paths does)"
        emit(Note(text, warning=True))


def hidden_variables(env: Mapping[str, str], inside: Inside) -> dict[str, Path]:
    """Variables that name a file or folder which is there but cannot be read inside."""
    named = {name: Path(value) for name, value in env.items() if value.startswith("/")}
    return {n: p for n, p in named.items() if os.path.lexists(p) and not inside.sees(p.resolve())}


def _hidden(word: str, path: str, inside: Inside) -> Path | None:
    for program in _chain(word, path, inside):
        if not inside.sees(real := program.resolve()):
            return real
        if not inside.sees(program):
            return program
    return None


def _chain(word: str, path: str, inside: Inside) -> Iterator[Path]:
    """A program, and the interpreters that first lines name."""
    for _ in range(INTERPRETERS):
        program = _found(word, path, inside)
        if program is None:
            return
        yield program
        word = interpreter(program)


def _found(word: str, path: str, inside: Inside) -> Path | None:
    if "/" in word:
        program = inside.ground.checkout / word
        return program if program.is_file() else None
    found = word and (shutil.which(word, path=inside.path) or shutil.which(word, path=path))
    return Path(found) if found else None


def interpreter(program: Path) -> str:
    """The program that a script's first line names, "" where there is none."""
    try:
        with program.open("rb") as file:
            line = file.readline(FIRST_LINE)
    except OSError:
        return ""
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


def _folder_of(program: Path, home: Path) -> Path:
    """The installation that a program belongs to; its own folder where other things are beside."""
    folder = program.parent
    top = folder.parent
    return folder if folder.name != "bin" or top == home or top.name.startswith(".") else top
