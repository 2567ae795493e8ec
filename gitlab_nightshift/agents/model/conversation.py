"""The messages of a loop, trimmed to the model's context: old tool results go first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gitlab_nightshift.agents.model.chat_client import KEPT_THOUGHT_KEYS, Message

BYTES_PER_TOKEN = 3
"""A low estimate, to be safe: code has three to four."""
UNKNOWN_CONTEXT = 128_000
"""Tokens to assume if nobody says how many the model takes."""
TRIMMED_PART = 0.7
"""Of the limit. Each trim invalidates the endpoint's cache, so it should last for some turns."""
SHORTEST_RESULT = 400
"""Characters; a result is not shortened further."""
DROPPED = "(this output was dropped to save room; call the tool again if you need it)"


class ContextTooSmallError(Exception):
    """The task alone does not fit into the model's context."""


@dataclass
class Conversation:
    """The messages so far. ``context`` are the tokens that the model takes of everything, its
    answer included (0: unknown), ``fixed`` those of what is sent beside the messages."""

    messages: list[Message]
    context: int = 0
    fixed: int = 0
    trimmed: int = 0
    _results: list[int] = field(default_factory=list)

    def add(self, message: Message, *, droppable: bool = False) -> None:
        """Add a message; the text of a ``droppable`` one, a tool's result, may go later."""
        if droppable:
            self._results.append(len(self.messages))
        self.messages.append(message)

    def reduce_context(self, reported: int, answer: int) -> None:
        """Lower the context after a request that was too long: to what the endpoint ``reported``,
        else to three quarters of what was sent, whose tokens are only estimated here."""
        sent = estimate_tokens(self.messages) + self.fixed + answer
        known = self.context or sent
        # A reported context that is no smaller than the known one explains nothing: then the next
        # try is just shorter.
        self.context = reported if 0 < reported < known else min(known, sent) * 3 // 4

    def fit(self, answer: int, newest: int = 0) -> Sequence[Message]:
        """The messages, trimmed to leave room for an answer of so many tokens. The last ``newest``
        messages keep their results if possible.

        Raises :class:`ContextTooSmallError`.
        """
        limit = (self.context or UNKNOWN_CONTEXT) - answer - self.fixed
        if estimate_tokens(self.messages) <= limit:
            return self.messages
        self.trimmed += 1
        first_new = len(self.messages) - newest
        # What is dropped first can be had again: old results, thoughts, whole turns, new results.
        for at in [at for at in self._results if at < first_new]:
            if estimate_tokens(self.messages) <= limit * TRIMMED_PART:
                return self.messages
            self._shorten(at, 0)
        self._drop_thoughts(first_new)
        while estimate_tokens(self.messages) > limit and self._drop_oldest_turn():
            pass
        while estimate_tokens(self.messages) > limit and self._results:
            largest = max(self._results, key=lambda at: len(str(self.messages[at]["content"])))
            size = len(str(self.messages[largest]["content"]))
            if size <= SHORTEST_RESULT:
                break
            self._shorten(largest, size // 2)
        if estimate_tokens(self.messages) > limit:
            raise ContextTooSmallError(f"the task does not fit into {self.context} tokens")
        return self.messages

    def _drop_oldest_turn(self) -> bool:
        """Drop an assistant's message with the results of its calls, as servers refuse one without
        the other; False at the last one."""
        turns = [at for at, each in enumerate(self.messages) if each["role"] == "assistant"]
        if len(turns) < 2:
            return False
        start, end = turns[:2]
        del self.messages[start:end]
        self._results = [at - (end - start) for at in self._results if at >= end]
        return True

    def _shorten(self, at: int, most: int) -> None:
        text = str(self.messages[at]["content"])
        self.messages[at] = {**self.messages[at], "content": cut_text(text, most) or DROPPED}

    def _drop_thoughts(self, end: int) -> None:
        for at, message in enumerate(self.messages[:end]):
            if message["role"] == "assistant":
                kept = {k: v for k, v in message.items() if k not in KEPT_THOUGHT_KEYS}
                self.messages[at] = kept


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Tokens of the messages, estimated high."""
    size = sum(len(repr(message).encode("utf-8", "replace")) for message in messages)
    return size // BYTES_PER_TOKEN


def cut_text(text: str, most: int) -> str:
    """The start and the end of a text, at most about ``most`` characters."""
    if len(text) <= most or not most:
        return text if most else ""
    half = most // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
