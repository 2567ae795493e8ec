"""The messages of a loop, trimmed to the model's context: old outputs of tools go first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gitlab_nightshift.agents.model.chat_client import KEPT_THOUGHTS, Message

BYTES_PER_TOKEN = 3
"""Rather few: code has three to four."""
UNKNOWN_CONTEXT = 128_000
"""Tokens, where nobody says how many the model takes."""
TRIMMED_TO = 0.7
"""Of the room: each trim changes what the endpoint has cached, so it is worth some turns."""
SHORTEST_CUT = 400
DROPPED = "(this output was dropped to save room; call the tool again if you need it)"


class ContextTooSmallError(Exception):
    """Not even the task fits into the model's context."""


@dataclass
class Conversation:
    """The messages so far. ``context`` are the tokens that the model takes of all and of its
    answer, ``fixed`` those of what is sent beside the messages."""

    messages: list[Message]
    context: int = 0
    fixed: int = 0
    trimmed: int = 0
    _outputs: list[int] = field(default_factory=list)

    def add(self, message: Message, *, output: bool = False) -> None:
        """Add a message; an ``output`` may be dropped later."""
        if output:
            self._outputs.append(len(self.messages))
        self.messages.append(message)

    def narrow(self, told: int, answer: int) -> None:
        """The model takes less than was thought: the endpoint's word, else three quarters of what
        was too long for it, as its tokens are not counted here."""
        sent = estimate_tokens(self.messages) + self.fixed + answer
        known = self.context or sent
        self.context = told if 0 < told < known else min(known, sent) * 3 // 4

    def fit(self, answer: int, newest: int = 0) -> Sequence[Message]:
        """The messages with room for an answer of so many tokens, trimmed if need be. The last
        ``newest`` messages keep their outputs if possible.

        Raises :class:`ContextTooSmallError`.
        """
        room = (self.context or UNKNOWN_CONTEXT) - answer - self.fixed
        if estimate_tokens(self.messages) <= room:
            return self.messages
        self.trimmed += 1
        first_new = len(self.messages) - newest
        for at in [at for at in self._outputs if at < first_new]:
            if estimate_tokens(self.messages) <= room * TRIMMED_TO:
                return self.messages
            self._shorten(at, 0)
        self._drop_thoughts(first_new)
        while estimate_tokens(self.messages) > room and self._drop_oldest_turn():
            pass
        while estimate_tokens(self.messages) > room and self._outputs:
            largest = max(self._outputs, key=lambda at: len(str(self.messages[at]["content"])))
            size = len(str(self.messages[largest]["content"]))
            if size <= SHORTEST_CUT:
                break
            self._shorten(largest, size // 2)
        if estimate_tokens(self.messages) > room:
            raise ContextTooSmallError(f"the task does not fit into {self.context} tokens")
        return self.messages

    def _drop_oldest_turn(self) -> bool:
        """Drop a whole turn, an assistant's message and what answers it; False at the last one."""
        turns = [at for at, each in enumerate(self.messages) if each["role"] == "assistant"]
        if len(turns) < 2:
            return False
        start, end = turns[:2]
        del self.messages[start:end]
        self._outputs = [at - (end - start) for at in self._outputs if at >= end]
        return True

    def _shorten(self, at: int, most: int) -> None:
        text = str(self.messages[at]["content"])
        self.messages[at] = {**self.messages[at], "content": cut_text(text, most) or DROPPED}

    def _drop_thoughts(self, end: int) -> None:
        """The thoughts of earlier turns."""
        for at, message in enumerate(self.messages[:end]):
            if message["role"] == "assistant":
                kept = {k: v for k, v in message.items() if k not in KEPT_THOUGHTS}
                self.messages[at] = kept


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens of the messages, rather too many."""
    size = sum(len(repr(message).encode("utf-8", "replace")) for message in messages)
    return size // BYTES_PER_TOKEN


def cut_text(text: str, most: int) -> str:
    """A text of at most about ``most`` characters: its start and its end."""
    if len(text) <= most or not most:
        return text if most else ""
    half = most // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
