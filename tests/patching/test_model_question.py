"""One question to a model: a request that is too large becomes smaller, or is not sent again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from gitlab_nightshift.patching.chat_client import ChatClient, EndpointError, Format, Message
from gitlab_nightshift.patching.model_context import estimate_tokens
from gitlab_nightshift.patching.model_question import RequestSize, ask_until_usable
from tests.support.turns import JsonObject

TASK_TOKENS = 500
USUAL = RequestSize(24_000, 8_000)
Refuse = Callable[[int, int], EndpointError | None]


@dataclass(frozen=True)
class Endpoint(ChatClient):
    """Refuses what ``refuse`` says of the tokens of a request and of its answer."""

    refuse: Refuse = lambda sent, answer: None
    context: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def ask(self, messages: Sequence[Message], tokens: int, answer: Format = None) -> str:
        sent = sum(len(message["content"]) // 3 for message in messages)
        self.asked.append((sent, tokens))
        if error := self.refuse(sent, tokens):
            raise error
        return "yes"

    def read_context(self) -> int:
        return self.context


def with_repository(tokens: int) -> Callable[[int], Sequence[Message]]:
    """A task before a repository of so many tokens."""
    return lambda limit: [
        {"role": "system", "content": "s" * 3 * TASK_TOKENS},
        {"role": "user", "content": "r" * 3 * min(limit, tokens)},
    ]


def ask(endpoint: Endpoint, tokens: int, size: RequestSize = USUAL) -> tuple[str, list[JsonObject]]:
    told: list[JsonObject] = []
    tell = lambda event: told.append(dict(event))  # noqa: E731
    used = ask_until_usable(endpoint, with_repository(tokens), size, [None], str, tell)
    return used, told


def longer_than(context: int, *, says: int = 0, words: str = "context length") -> Refuse:
    """As a server with this context answers; ``says`` is the number that it gives."""

    def refuse(sent: int, answer: int) -> EndpointError | None:
        fits = sent + answer <= context
        return None if fits else EndpointError(400, f"too long: {words}", says)

    return refuse


def test_an_answer_is_asked_for_with_its_limit() -> None:
    endpoint = Endpoint("", "", "m")
    assert ask(endpoint, 90_000) == ("yes", [])
    assert endpoint.asked == [(24_500, 8_000)]


def test_a_context_that_is_known_is_never_exceeded() -> None:
    for context in (4_096, 8_192, 16_384, 30_000):
        endpoint = Endpoint("", "", "m", refuse=longer_than(context), context=context)
        used, [told] = ask(endpoint, 90_000)
        [(sent, answer)] = endpoint.asked
        assert (used, told["type"]) == ("yes", "smaller"), context
        assert sent + answer <= context, context
        assert answer >= min(8_000, context // 4), "an answer has room, too"
        assert sent + answer > context * 9 // 10, "and the repository has the rest"


def test_a_small_repository_leaves_the_answer_all_that_the_context_has() -> None:
    endpoint = Endpoint("", "", "m", refuse=longer_than(4_096), context=4_096)
    assert ask(endpoint, 1_000) == ("yes", [])
    [(sent, answer)] = endpoint.asked
    assert 0 <= 4_096 - sent - answer < 10, "the limit of the answer alone is lowered"


@pytest.mark.parametrize("says", [0, 8_192])
def test_a_refusal_makes_the_request_smaller_each_time(says: int) -> None:
    endpoint = Endpoint("", "", "m", refuse=longer_than(8_192, says=says))
    assert ask(endpoint, 90_000)[0] == "yes"
    sizes = [sent + answer for sent, answer in endpoint.asked]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) <= (2 if says else 4)


def test_where_the_answer_alone_is_too_long_the_repository_stays() -> None:
    endpoint = Endpoint("", "", "m", refuse=longer_than(8_192, says=8_192))
    assert ask(endpoint, 3_000) == ("yes", [])
    assert [sent for sent, _ in endpoint.asked] == [3_500, 3_500]


def test_a_request_that_cannot_become_smaller_is_not_sent_again() -> None:
    """A server that refuses everything is asked a few times, never the same twice."""
    endpoint = Endpoint("", "", "m", refuse=longer_than(0))
    with pytest.raises(EndpointError, match="too long"):
        ask(endpoint, 100)
    assert len(set(endpoint.asked)) == len(endpoint.asked) <= 4
    assert endpoint.asked[-1] == (600, 1024)


def test_a_context_that_the_estimate_takes_for_enough_is_lowered_all_the_same() -> None:
    """A language whose tokens are shorter than estimated."""
    dense = lambda sent, answer: longer_than(8_192, says=8_192)(2 * sent, answer)  # noqa: E731
    endpoint = Endpoint("", "", "m", refuse=dense, context=8_192)
    assert ask(endpoint, 90_000)[0] == "yes"
    assert 1 < len(endpoint.asked) <= 5


def test_the_estimate_is_of_what_is_sent() -> None:
    assert estimate_tokens("r" * 3_000) == 1_001
