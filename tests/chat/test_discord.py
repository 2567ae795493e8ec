"""Which requests are accepted, by signature and time, and how many tasks a person may start."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gitlab_nightshift.chat import discord
from gitlab_nightshift.chat.chat_settings import build_signature_check
from gitlab_nightshift.chat.discord import (
    MOST_TASKS,
    PERIOD_S,
    WINDOW_S,
    RateLimiter,
    RequestVerifier,
)
from tests.chat.tools import KEY, signed

NOW = 1_700_000_000.0
BODY = b'{"type":1}'


class Endpoint:
    """A verifier at the time ``now``."""

    def __init__(self) -> None:
        self.now = NOW
        check = build_signature_check(KEY.public_key().public_bytes_raw().hex())
        self.verifier = RequestVerifier(check, lambda: self.now)

    def accepts_body(self, body: bytes = BODY) -> bool:
        return self.accepts(signed(body, at=self.now), body)

    def accepts(self, headers: dict[str, str], body: bytes = BODY) -> bool:
        signature, timestamp = headers["X-Signature-Ed25519"], headers["X-Signature-Timestamp"]
        return self.verifier.accept(signature, timestamp, body)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


def test_another_key_is_refused(endpoint: Endpoint) -> None:
    assert not endpoint.accepts(signed(BODY, Ed25519PrivateKey.generate(), endpoint.now))


def test_a_changed_body_or_time_is_refused(endpoint: Endpoint) -> None:
    headers = signed(BODY, at=NOW)
    assert not endpoint.accepts(headers, BODY + b" ")
    assert not endpoint.accepts({**headers, "X-Signature-Timestamp": str(int(NOW) + 1)})
    assert endpoint.accepts(headers)


def test_a_digit_of_the_time_cannot_move_to_the_body(endpoint: Endpoint) -> None:
    """``1`` + ``2...`` and ``12`` + ``...`` are the same bytes."""
    stamp = str(int(NOW))
    signature = KEY.sign(stamp.encode() + BODY).hex()
    assert not endpoint.verifier.accept(signature, stamp[:-1], stamp[-1:].encode() + BODY)


@pytest.mark.parametrize(
    "header",
    [
        {"X-Signature-Ed25519": ""},
        {"X-Signature-Ed25519": "00" * 64},
        {"X-Signature-Ed25519": "00" * 63},
        {"X-Signature-Ed25519": "zz" * 64},
        {"X-Signature-Timestamp": ""},
        {"X-Signature-Timestamp": "now"},
        {"X-Signature-Timestamp": "-1"},
        {"X-Signature-Timestamp": "١٧٠٠٠٠٠٠٠٠"},
        {"X-Signature-Timestamp": "9" * 400},
    ],
)
def test_invalid_headers_are_refused(endpoint: Endpoint, header: dict[str, str]) -> None:
    assert not endpoint.accepts({**signed(BODY, at=NOW), **header})


@pytest.mark.parametrize("away_s", [-WINDOW_S - 1, WINDOW_S + 1])
def test_an_old_or_future_request_is_refused(endpoint: Endpoint, away_s: float) -> None:
    headers = signed(BODY, at=NOW + away_s)
    assert not endpoint.accepts(headers)


@pytest.mark.parametrize("away_s", [-WINDOW_S, WINDOW_S])
def test_clocks_may_differ_by_the_window(endpoint: Endpoint, away_s: float) -> None:
    assert endpoint.accepts(signed(BODY, at=NOW + away_s))


def test_a_request_is_accepted_once_while_its_time_is_valid(endpoint: Endpoint) -> None:
    headers = signed(BODY, at=NOW + WINDOW_S)
    assert endpoint.accepts(headers)
    assert not endpoint.accepts(headers)
    upper = {**headers, "X-Signature-Ed25519": headers["X-Signature-Ed25519"].upper()}
    assert not endpoint.accepts(upper)
    endpoint.now = NOW + 2 * WINDOW_S - 1
    assert not endpoint.accepts(headers)
    assert endpoint.accepts_body(b"another")


def test_expired_requests_are_forgotten(endpoint: Endpoint) -> None:
    assert endpoint.accepts_body()
    endpoint.now += 2 * WINDOW_S + 1
    assert endpoint.accepts_body()
    assert len(endpoint.verifier._expiry_times) == 1


def test_a_full_memory_accepts_nothing(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "MOST_REMEMBERED", 2)
    assert [endpoint.accepts_body(str(n).encode()) for n in range(3)] == [True, True, False]
    endpoint.now += 3 * WINDOW_S
    assert endpoint.accepts_body(b"3")


def test_the_tasks_of_a_person_are_limited() -> None:
    now = NOW
    rate_limiter = RateLimiter(lambda: now)
    assert all(rate_limiter.allow("ada") for _ in range(MOST_TASKS))
    assert not rate_limiter.allow("ada")
    assert rate_limiter.allow("bob")
    now += PERIOD_S
    assert rate_limiter.allow("ada")
