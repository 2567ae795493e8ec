"""Commands that an agent's shell has not found, from what its CLI reports of failed commands."""

from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST, LONGEST_READ = 10, 4_000
_NAME = r"([\w.+-]{1,60})"
_NOT_FOUND = compile_lazily(
    rf"(?m)^(?:[\w./-]{{1,40}}: )?(?:line )?(?:\d{{1,6}}: )?{_NAME}: (?:command )?not found\r?$"
    rf"|^\w{{1,20}}: command not found: {_NAME}\r?$"
)
"""``sh: 1: python3: not found``, ``/bin/bash: line 1: python3: command not found``,
``zsh: command not found: python3``."""


class MissingCommands:
    """The first few names, each once. A text is an agent's: it may be of any shape."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they were missed."""
        return tuple(self._names)

    def read(self, output: object) -> None:
        """Look through the output of a command that failed: its start and its end."""
        if not isinstance(output, str):
            return
        for text in dict.fromkeys((output[:LONGEST_READ], output[-LONGEST_READ:])):
            for found in _NOT_FOUND.finditer(text):
                if len(self._names) < MOST:
                    self._names[found[1] or found[2]] = None
