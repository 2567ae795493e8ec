"""Regular expressions that are compiled on first use.

Red flags and redaction have six hundred: to compile them all takes longer than all other imports of
a command, and most commands use only a few.
"""

import re
from typing import Any, AnyStr, cast


class LazyPattern:
    """A proxy for a ``re.Pattern``, compiled on first use. Functions of ``re`` do not accept it."""

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
        attribute = getattr(self.compile(), name)
        setattr(self, name, attribute)  # the next time, this method is not called
        return attribute

    def __repr__(self) -> str:
        return f"compile_lazily({self.pattern!r}, {self._flags})"


def compile_lazily(pattern: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """A pattern that is compiled on first use; that raises re.error if it is invalid."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, int(flags)))
