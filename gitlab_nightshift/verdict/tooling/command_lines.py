"""Command lines of CI jobs and recipes: what they run, and which of them check something."""

import re
import shlex
from dataclasses import dataclass
from functools import cached_property

from gitlab_nightshift.verdict.rule_tables import RuleTable

_TABLE = RuleTable(__file__)

_PREFIX = _TABLE.get_pattern("prefix")
_CHECKS = _TABLE.get_pattern("checks", re.IGNORECASE)
_WRAPPERS = _TABLE.get_pattern("wrappers")
_INSTALLS = _TABLE.get_pattern("installs")
_WITH_VALUE = _TABLE.get_pattern("with_value")
_SAME: dict[str, str] = {
    tool: purpose for purpose, tools in _TABLE.entries["same"].items() for tool in tools.split()
}
"""Tools that do the same, by their names."""


@dataclass(frozen=True)
class CommandLine:
    """A command line; words are those of the shell as far as they can be known."""

    text: str

    @cached_property
    def bare(self) -> str:
        """Without what only wraps it: environment, runners, ``@`` of make, cargo's toolchain."""
        bare = _PREFIX.sub("", self.text.strip()) or self.text.strip()
        return re.sub(r"^(go) tool(?= vet\b)|^(cargo) \+(\$\{\{.*?\}\}|\S+)", r"\1\2", bare)

    @cached_property
    def words(self) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(self.bare.replace("`", " ")))
        except ValueError:
            return tuple(self.bare.split())

    @cached_property
    def checks(self) -> bool:
        """True for a command that finds mistakes."""
        if re.match(
            r"\s*(echo|printf|cd|mkdir|pip|apt|apk|brew|curl|wget|rm|cp|export|#)\b", self.bare
        ):
            return False
        return not self.installs and bool(_CHECKS.search(self.bare))

    @cached_property
    def installs(self) -> bool:
        return bool(_INSTALLS.match(self.bare))

    @cached_property
    def purpose(self) -> str:
        """What the command runs, the same name for tools that do the same."""
        words = [word for word in self.words if word[:1] != "-"] or [self.bare]
        name = words[0].rpartition("/")[2]
        if name in ("npm", "pnpm", "yarn", "bun"):
            name = "npm:" + ":".join(word for word in words[1:2] if word not in ("run", "t"))
            name += "".join(word for word in words[2:3] if words[1:2] in (["run"], ["run-script"]))
        elif name in ("go", "cargo", "dotnet", "make", "deno", "mix", "rake", "just", "task"):
            name += ":" + "".join(words[1:2])
        return _SAME.get(name, name)

    @property
    def wraps(self) -> bool:
        """True for what runs other checks."""
        return bool(_WRAPPERS.match(self.bare.removeprefix("./")))

    @cached_property
    def options(self) -> dict[str, str]:
        """Option → value, which may be its own or the word after it."""
        found: dict[str, str] = {}
        for word, after in zip(self.words, (*self.words[1:], ""), strict=True):
            if word[:1] == "-" and len(word) > 1:
                name, _, value = word.partition("=")
                takes = _WITH_VALUE.match(name) and after[:1] != "-"
                found[name] = value or (after if takes else "")
        return found

    @cached_property
    def targets(self) -> frozenset[str]:
        """Paths and patterns that are named."""
        options = self.options.values()
        plain = [w for w in self.words[1:] if w[:1] != "-" and w not in options]
        return frozenset(
            w for w in plain if re.search(r"[/.*]", w) and not re.search(r"[|&<>;=$]", w)
        )


def describe_checker_loss(old: object, new: object) -> str:
    """What is gone of a list of tools, and nothing that does the same came in its place."""
    before, after = (value if isinstance(value, (list, tuple)) else () for value in (old, new))
    has = {_build_command(name).purpose for name in after}
    lost = [
        n
        for n in before
        if _build_command(n).checks and n not in after and _build_command(n).purpose not in has
    ]
    return f"lost {', '.join(lost[:3])}" if lost else ""


def _build_command(name: str) -> CommandLine:
    return CommandLine(re.sub(r"-(check|system|docker|full|src|pre-commit)$", "", name))


def parse_commands(script: object) -> list[CommandLine]:
    """The commands of a script: texts, lists, or lists in lists, split at lines and ``&&``."""
    if isinstance(script, (list, tuple)):
        return [command for part in script for command in parse_commands(part)]
    if not isinstance(script, str):
        return []
    lines = re.sub(r"\\\n\s*", " ", script).split("\n")
    parts = (part.strip() for line in lines for part in _split_line(line))
    return [CommandLine(part) for part in parts if part and part[0] != "#"]


def _split_line(line: str) -> list[str]:
    """``a && b || c`` does ``c`` if any of them fails."""
    parts = re.split(r"\s&&\s|;\s*(?:then|fi)\b", line)
    _, anyway, rest = parts[-1].partition(" || ")
    return [*(part + anyway + rest for part in parts[:-1]), parts[-1]]
