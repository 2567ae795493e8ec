"""What a repository's build files imply: the commands that build and test it."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gitlab_nightshift.proof.rule_tables import RuleTable

Read = Callable[[str], bytes | None]

_MAKE_TARGETS = ("test", "check", "lint", "build", "fmt")
_NPM_SCRIPTS = ("test", "lint", "build", "typecheck")
BUILD_FILES: dict[str, dict[str, Any]] = RuleTable(__file__).entries
"""``build_files.toml``."""
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def build_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """Commands that build or test, from the files at the root; ``read`` gives a file's bytes."""
    found: list[str] = []
    targets = read_root_targets(files, read)
    found += [f"make {name}" for name in _MAKE_TARGETS if name in targets]
    for name, commands in BUILD_FILES["commands"].items():
        found += commands if name in files else ()
    npm = find_npm(files)
    scripts = read_scripts(read("package.json") if "package.json" in files else None)
    found += [
        "npm test" if (npm, name) == ("npm", "test") else f"{npm} run {name}"
        for name in _NPM_SCRIPTS
        if name in scripts
    ]
    if any("/" not in name and name.endswith((".sln", ".csproj", ".fsproj")) for name in files):
        found += ("dotnet build", "dotnet test")
    return tuple(dict.fromkeys(found))


def list_default_allowed_commands(files: Collection[str], read: Read) -> tuple[str, ...]:
    """The default of ``allowed_commands``: git, and what the build files imply."""
    return ("git", *build_commands(files, read))


def read_root_targets(files: Collection[str], read: Read) -> frozenset[str]:
    """The targets of the Makefile that Make would take."""
    makefile = next((name for name in MAKEFILES if name in files), "")
    return read_make_targets(read(makefile) if makefile else None)


def read_make_targets(text: bytes | None) -> frozenset[str]:
    """The targets of a Makefile that have a plain name."""
    rules = re.findall(rb"^([\w.][\w. \t-]*):(?![:=]*=)", text or b"", re.MULTILINE)
    return frozenset(target.decode() for rule in rules for target in rule.split())


def find_npm(files: Collection[str]) -> str:
    """The program that runs the scripts of a package.json."""
    locks = BUILD_FILES["npm"]
    return next((str(program) for lock, program in locks.items() if lock in files), "npm")


def read_scripts(text: bytes | None) -> Mapping[str, Any]:
    """The scripts of a package.json or composer.json; none where there is no such file."""
    try:
        scripts = json.loads(text or b"{}").get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return scripts if isinstance(scripts, dict) else {}
