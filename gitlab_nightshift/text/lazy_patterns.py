"""Regular expressions that are compiled when they are first used.

The red flags and the redaction have six hundred: to compile them all takes longer than everything
else that a command imports, and most commands use a few.
"""

import re
from typing import Any, AnyStr, cast


class LazyPattern:
    """Stands for a ``re.Pattern``: its first use compiles it. Not for functions of ``re``, which
    take strings and patterns alone."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[Any] | None = None

    def compile(self) -> "re.Pattern[Any]":
        """The pattern itself. Raises re.error."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.compile(), name)
        setattr(self, name, found)  # a method is looked up once
        return found

    def __repr__(self) -> str:
        return f"compile_lazily({self.pattern!r}, {self._flags})"


def compile_lazily(pattern: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """A pattern that is compiled, and refused where it is none, when it is first used."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, int(flags)))
