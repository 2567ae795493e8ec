"""One question to a model, until its answer can be used: bounded, and each step reported.

The endpoint decides what it can do: a form of answer that it does not know is left out, and a
context that is too large for it is made smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gitlab_nightshift.patching.blocks import MalformedError
from gitlab_nightshift.patching.chat_client import ChatClient, EndpointError, Format, Message
from gitlab_nightshift.patching.edits import NotApplicableError
from gitlab_nightshift.patching.model_context import LEAST_TOKENS
from gitlab_nightshift.patching.prompt_text import render_complaint

ATTEMPTS = 2
"""An answer that cannot be used is sent back once, with the reason."""
_UNKNOWN_FORM = (400, 404, 415, 422, 500, 501)
Tell = Callable[[Mapping[str, Any]], None]
Question = Callable[[int], Sequence[Message]]
"""The messages for a limit of tokens that the repository may take."""
T = TypeVar("T")


def ask_until_usable(
    chat: ChatClient,
    question: Question,
    limit: int,
    formats: Sequence[Format],
    use: Callable[[str], T],
    tell: Tell,
) -> T:
    """What ``use`` makes of the answer.

    ``use`` raises Malformed or NotApplicable for one that cannot be used. Raises the last of these,
    EndpointError, and what ``question`` raises.
    """
    messages, text, left = _ask_first(chat, question, limit, list(formats), tell)
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
            text = chat.ask([*messages, *back], left)
    raise AssertionError("the loop returns or raises")


def _ask_first(
    chat: ChatClient, question: Question, limit: int, formats: list[Format], tell: Tell
) -> tuple[Sequence[Message], str, Format]:
    """The first answer, with the messages and the form of answer that the endpoint took."""
    while True:
        messages = question(limit)
        try:
            return messages, chat.ask(messages, formats[0]), formats[0]
        except EndpointError as error:
            if error.too_long and limit // 2 >= LEAST_TOKENS:
                limit //= 2
                tell({"type": "smaller", "tokens": limit})
            elif not error.too_long and error.status in _UNKNOWN_FORM and len(formats) > 1:
                formats.pop(0)
            else:
                raise
