"""Rules as data: tables of words and patterns, each beside the module that applies it.

A table is a TOML file. A pattern is a string, or a list of alternatives; ``{NAME}`` in it inserts
the table's entry of that name. Words are a string, separated by white space.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_PLACEHOLDER = compile_lazily(r"\{([A-Z][A-Z_]*)\}")


class RuleTable:
    """The table beside a module: ``RuleTable(__file__)``, or by ``name`` another file beside it.
    Unknown entries raise KeyError."""

    def __init__(self, module: str, name: str = "") -> None:
        path = Path(module).with_suffix(".toml")
        self.entries: dict[str, Any] = tomllib.loads(
            (path.with_name(name) if name else path).read_text("utf-8")
        )

    def get_pattern(self, name: str, flags: int = 0) -> re.Pattern[str]:
        """The pattern of this entry, compiled at its first use."""
        return self.compile(self.entries[name], flags)

    def compile(self, entry: str | list[str], flags: int = 0) -> re.Pattern[str]:
        """An entry of the table, or of one of its rows, as a pattern."""
        # All tables together have hundreds of patterns, of which a change needs few.
        return compile_lazily(self._expand(entry), flags)

    def _expand(self, entry: str | list[str]) -> str:
        text = entry if isinstance(entry, str) else "|".join(entry)
        return _PLACEHOLDER.sub(lambda match: self._expand(self.entries[match[1]]), text)

    def get_words(self, name: str) -> frozenset[str]:
        """The words of this entry."""
        return frozenset(self.entries[name].split())
