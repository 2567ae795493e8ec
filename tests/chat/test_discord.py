"""Which requests are admitted: signature, time, and only once; how often a person may ask."""

from dataclasses import dataclass, field

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


@dataclass
class Time:
    at: float = NOW


@dataclass
class World:
    time: Time = field(default_factory=Time)

    def __post_init__(self) -> None:
        fits = build_signature_check(KEY.public_key().public_bytes_raw().hex())
        self.verifier = RequestVerifier(fits, lambda: self.time.at)

    def lets_in(self, body: bytes = BODY) -> bool:
        return self.knock(signed(body, at=self.time.at), body)

    def knock(self, headers: dict[str, str], body: bytes = BODY) -> bool:
        signature, timestamp = headers["X-Signature-Ed25519"], headers["X-Signature-Timestamp"]
        return self.verifier.is_valid(signature, timestamp, body)


@pytest.fixture
def world() -> World:
    return World()


def test_a_signed_request_is_let_in(world: World) -> None:
    assert world.lets_in()


def test_another_key_is_not(world: World) -> None:
    assert not world.knock(signed(BODY, Ed25519PrivateKey.generate(), world.time.at))


def test_a_changed_body_or_time_is_not(world: World) -> None:
    headers = signed(BODY, at=NOW)
    assert not world.knock(headers, BODY + b" ")
    assert not world.knock({**headers, "X-Signature-Timestamp": str(int(NOW) + 1)})
    assert world.knock(headers)


def test_the_time_is_a_part_of_what_is_signed(world: World) -> None:
    """``1`` + ``2...`` and ``12`` + ``...`` are the same bytes."""
    stamp = str(int(NOW))
    signature = KEY.sign(stamp.encode() + BODY).hex()
    assert not world.verifier.is_valid(signature, stamp[:-1], stamp[-1:].encode() + BODY)


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
def test_odd_headers_are_refused(world: World, header: dict[str, str]) -> None:
    assert not world.knock({**signed(BODY, at=NOW), **header})


@pytest.mark.parametrize("away_s", [-WINDOW_S - 1, WINDOW_S + 1])
def test_a_request_of_another_time_is_refused(world: World, away_s: float) -> None:
    headers = signed(BODY, at=NOW + away_s)
    assert not world.knock(headers)


@pytest.mark.parametrize("away_s", [-WINDOW_S, WINDOW_S])
def test_clocks_may_differ_by_minutes(world: World, away_s: float) -> None:
    assert world.knock(signed(BODY, at=NOW + away_s))


def test_the_same_request_is_let_in_once_as_long_as_its_time_is_good(world: World) -> None:
    headers = signed(BODY, at=NOW + WINDOW_S)
    assert world.knock(headers)
    assert not world.knock(headers)
    upper = {**headers, "X-Signature-Ed25519": headers["X-Signature-Ed25519"].upper()}
    assert not world.knock(upper)
    world.time.at = NOW + 2 * WINDOW_S - 1
    assert not world.knock(headers)
    assert world.lets_in(b"another")


def test_what_is_too_old_to_be_let_in_is_forgotten(world: World) -> None:
    assert world.lets_in()
    world.time.at += 2 * WINDOW_S + 1
    assert world.lets_in()
    assert len(world.verifier._seen) == 1


def test_a_full_memory_lets_nothing_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discord, "MOST_REMEMBERED", 2)
    assert [world.lets_in(str(n).encode()) for n in range(3)] == [True, True, False]
    world.time.at += 3 * WINDOW_S
    assert world.lets_in(b"3")


def test_a_person_starts_so_many_tasks_and_no_more() -> None:
    time = Time()
    rate_limiter = RateLimiter(lambda: time.at)
    assert all(rate_limiter.allow("ada") for _ in range(MOST_TASKS))
    assert not rate_limiter.allow("ada")
    assert rate_limiter.allow("bob")
    time.at += PERIOD_S
    assert rate_limiter.allow("ada")
