"""One question to a model, until its answer can be used: bounded, and each step reported.

The endpoint decides what it can do: a form of answer that it does not know is left out, and a
request that is too large for it is made smaller, or not sent again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gitlab_nightshift.patching.blocks import MalformedError
from gitlab_nightshift.patching.chat_client import ChatClient, EndpointError, Format, Message
from gitlab_nightshift.patching.edits import NotApplicableError
from gitlab_nightshift.patching.model_context import LEAST_TOKENS, estimate_tokens
from gitlab_nightshift.patching.prompt_text import render_complaint

ATTEMPTS = 2
"""An answer that cannot be used is sent back once, with the reason."""
LEAST_ANSWER = 1024
"""Tokens: the gateway sends no request on whose answer may have fewer."""
_UNKNOWN_FORM = (400, 404, 415, 422, 500, 501)
Tell = Callable[[Mapping[str, Any]], None]
Question = Callable[[int], Sequence[Message]]
"""The messages for a limit of tokens that the repository may take."""
T = TypeVar("T")


@dataclass(frozen=True)
class RequestSize:
    """Tokens that the repository, and the answer, may take; ``context``: what the model takes of
    the whole, 0 where nobody knows."""

    shown: int
    answer: int
    context: int = 0


@dataclass(frozen=True)
class _SizedRequest:
    """A request as it is sent. ``tokens`` estimates its messages, rather too high."""

    messages: Sequence[Message]
    size: RequestSize

    @property
    def tokens(self) -> int:
        return sum(estimate_tokens(message["content"]) for message in self.messages)

    @property
    def whole(self) -> int:
        """Its answer included."""
        return self.tokens + self.size.answer


def ask_until_usable(
    chat: ChatClient,
    question: Question,
    size: RequestSize,
    formats: Sequence[Format],
    use: Callable[[str], T],
    tell: Tell,
) -> T:
    """What ``use`` makes of the answer.

    ``use`` raises Malformed or NotApplicable for one that cannot be used. Raises the last of these,
    EndpointError, and what ``question`` raises.
    """
    size = replace(size, context=chat.read_context())
    sent, text, form = _ask_first(chat, question, size, list(formats), tell)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return use(text)
        except (MalformedError, NotApplicableError) as error:
            if attempt == ATTEMPTS:
                raise
            tell({"type": "refused", "problem": str(error)})
            back = [
                {"role": "assistant", "content": text},
                {"role": "user", "content": render_complaint(str(error))},
            ]
            again = _SizedRequest([*sent.messages, *back], sent.size)
            text = chat.ask(again.messages, _compute_answer(again), form)
    raise AssertionError("the loop returns or raises")


def _ask_first(
    chat: ChatClient, question: Question, size: RequestSize, formats: list[Format], tell: Tell
) -> tuple[_SizedRequest, str, Format]:
    """The first answer, with the request and the form of answer that the endpoint took."""
    sent = _fit_request(question, size)
    while True:
        _tell_smaller(size, sent.size, tell)
        size = sent.size
        try:
            return sent, chat.ask(sent.messages, size.answer, formats[0]), formats[0]
        except EndpointError as error:
            if error.too_long:
                smaller = _fit_request(question, _narrow_context(sent, error))
                if smaller.whole >= sent.whole:
                    raise
                sent = smaller
            elif error.status in _UNKNOWN_FORM and len(formats) > 1:
                formats.pop(0)
            else:
                raise


def _tell_smaller(size: RequestSize, smaller: RequestSize, tell: Tell) -> None:
    if smaller.shown < size.shown:
        tell({"type": "smaller", "tokens": smaller.shown})


def _narrow_context(sent: _SizedRequest, error: EndpointError) -> RequestSize:
    """The size with a smaller context than so far: the endpoint's word, else half of what was too
    long for it, as its tokens are not counted here."""
    known, told = sent.size.context or sent.whole, error.context or sent.whole // 2
    return replace(sent.size, context=told if told < known else known * 3 // 4)


def _fit_request(question: Question, size: RequestSize) -> _SizedRequest:
    """The request that fits into the context; where none does, the smallest one: the estimate is
    rather too high. An answer gets a quarter of the context before more of the repository does."""
    wanted = min(size.answer, max(size.context // 4, LEAST_ANSWER))
    sent = _SizedRequest(question(size.shown), size)
    while size.context and (missing := sent.tokens + wanted - size.context) > 0:
        shown = min(size.shown, sent.tokens) - max(missing, size.shown // 8)
        if size.shown <= LEAST_TOKENS:
            break
        size = replace(size, shown=max(shown, LEAST_TOKENS))
        sent = _SizedRequest(question(size.shown), size)
    return replace(sent, size=replace(size, answer=_compute_answer(sent)))


def _compute_answer(sent: _SizedRequest) -> int:
    """Tokens of the answer: what the context leaves, and no more than wanted."""
    if not sent.size.context:
        return sent.size.answer
    return min(sent.size.answer, max(sent.size.context - sent.tokens, LEAST_ANSWER))
