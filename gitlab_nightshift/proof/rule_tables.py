"""Rules that are data: tables of words and patterns, each beside the module that applies it.

A table is a TOML file. A pattern is a text, or a list of alternatives, one a line; ``{NAME}`` in it
stands for the table's entry of that name. Words are a text with white space between them.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_NAMED = compile_lazily(r"\{([A-Z][A-Z_]*)\}")


class RuleTable:
    """The table beside a module: ``RuleTable(__file__)``. A name that it has not is a KeyError."""

    def __init__(self, module: str, name: str = "") -> None:
        path = Path(module).with_suffix(".toml")
        self.entries: dict[str, Any] = tomllib.loads(
            (path.with_name(name) if name else path).read_text("utf-8")
        )

    def get_pattern(self, name: str, flags: int = 0) -> re.Pattern[str]:
        """The pattern of that name, compiled at its first use."""
        return self.compile(self.entries[name], flags)

    def compile(self, said: str | list[str], flags: int = 0) -> re.Pattern[str]:
        """A pattern of the table, wherever it stands there."""
        return compile_lazily(self.expand(said), flags)

    def expand(self, said: str | list[str]) -> str:
        """A pattern's text, with what its names stand for."""
        text = said if isinstance(said, str) else "|".join(said)
        return _NAMED.sub(lambda name: self.expand(self.entries[name[1]]), text)

    def get_words(self, name: str) -> frozenset[str]:
        """The words of that name."""
        return frozenset(self.entries[name].split())
