"""Nights whose model's answers come to an early end: less than what it meant is never published."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nights_agents.test_patch import AGENT, BLOCKS, night, turns
from tests.support.model_endpoint import ModelEndpoint
from tests.support.mortal_endpoint import MortalEndpoint
from tests.support.shop import BEADS
from tests.support.turns import Request, Turn, error, say
from tests.support.world import ANYWHERE, World, git, world

CONFIG = f"{ANYWHERE}{AGENT}max_implement_retries: 0\n"
SECOND = """\

shop.py
<<<<<<< SEARCH
    return sum(prices) * (100 - discount) / 100
=======
    # A gift is a discount of 100 percent, «für null».
    return sum(prices) * (100 - discount) / 100
>>>>>>> REPLACE
"""
BOTH = BLOCKS + SECOND
WHOLE = "1\t0\tshop.py\n2\t0\ttest_shop.py\n"
"""What the model means, as git counts it: half of it would be one of the two files."""


def published(shop: World) -> list[str]:
    bare = shop.project.bare_repository
    return [git(bare, "diff", "--numstat", shop.sha, str(mr.sha)) for mr in shop.merge_requests]


def model(*implement: Turn) -> Callable[[Request], Turn]:
    """One idea; its change comes as ``implement`` says, the last turn again and again. After it has
    failed the endpoint is gone, so that the night ends."""
    changes, analyses = list(implement), [turns()["analyze"][0]]

    def reply(request: Request) -> Turn:
        bead = BEADS(request)
        if bead == "analyze":
            return analyses.pop() if analyses else error(401)
        if bead == "implement":
            return changes.pop(0) if len(changes) > 1 else changes[0]
        return turns()[bead][0]

    return reply


def _after(mark: str) -> Callable[[bytes], bytes]:
    """Cut behind the first place of a text, which may stand in two events."""
    return lambda stream: stream[: _find_in_texts(stream, mark)]


def _find_in_texts(stream: bytes, mark: str) -> int:
    seen, wanted, at = "", BOTH[: BOTH.index(mark) + len(mark)], 0
    for line in stream.splitlines(keepends=True):
        at += len(line)
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            seen += choices[0]["delta"].get("content", "") if choices else ""
            if len(seen) >= len(wanted):
                return at + 1
    raise AssertionError(mark)


def _inside_utf8(stream: bytes) -> bytes:
    return stream[: stream.index("ü".encode()) + 1]


def _without_reason(stream: bytes) -> bytes:
    return stream.replace(b'"finish_reason": "stop"', b'"finish_reason": null')


def _with_reason(reason: str) -> Callable[[bytes], bytes]:
    return lambda stream: stream.replace(b'"stop"', f'"{reason}"'.encode())


def _two_ends(stream: bytes) -> bytes:
    """An end after the first block, and another one after the second."""
    cut = _find_in_texts(stream, ">>>>>>> REPLACE")
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    return stream[:cut] + end + stream[cut:]


CUTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "after a block": (_after(">>>>>>> REPLACE"), "the connection was lost"),
    "inside a block": (_after("======="), "the connection was lost"),
    "inside UTF-8": (_inside_utf8, "the connection was lost"),
    "before the first token": (lambda stream: stream[:9], "the connection was lost"),
    "after the headers": (lambda stream: b"", "the connection was lost"),
    "before the closing mark": (lambda s: s.replace(b"data: [DONE]", b""), "the connection was"),
    "finish_reason null to the end": (_without_reason, "no reason for its end"),
    "at the limit": (_with_reason("length"), "it reached the limit of tokens"),
    "by a filter": (_with_reason("content_filter"), "content filter held the rest back"),
    "two ends": (_two_ends, "it goes on after its end"),
}


@pytest.mark.parametrize("name", CUTS)
def test_half_an_answer_is_asked_for_again_and_never_published(tmp_path: Path, name: str) -> None:
    cut, why = CUTS[name]
    half = Turn(text=BOTH, broken=cut)
    with world(tmp_path, config=CONFIG) as shop, ModelEndpoint(model(half)) as endpoint:
        done = night(shop, endpoint.url, NIGHTSHIFT_ISOLATION="auto")
        assert shop.merge_requests == [], done.log
        asked = [request for request in endpoint.messages if BEADS(request) == "implement"]
        assert len(asked) == 2, "once more, and then it has failed"
        [bead] = [bead for bead in shop.result["beads"] if bead["bead"] == "implement"]
        assert bead["status"] == "crashed"
        assert bead["error"].startswith("the answer was cut off twice: ")
        assert why in bead["error"]
        assert re.search("implement: the answer was cut off: .*; asked for once more", done.log)
        shop.assert_restored()


def test_a_whole_answer_after_half_of_one_is_published_whole(tmp_path: Path) -> None:
    script = model(Turn(text=BOTH, broken=_after(">>>>>>> REPLACE")), say(BOTH))
    with world(tmp_path, config=CONFIG) as shop, ModelEndpoint(script) as endpoint:
        done = night(shop, endpoint.url)
        assert (done.exit_status, published(shop)) == (0, [WHOLE]), done.log


@pytest.mark.parametrize("quarter", range(4))
def test_a_server_that_is_killed_at_twenty_moments_never_leads_to_a_part(
    tmp_path: Path, quarter: int
) -> None:
    """At random ones, of all four beads; each time another process takes its place. Five moments
    at a time, so that they wait side by side."""
    answers = {bead: turn.text for bead, [turn] in {**turns(), "implement": [say(BOTH)]}.items()}
    chance = random.Random(20261126 + quarter)
    lives = [chance.randint(1, 9_000) for _ in range(5)]
    results: list[str] = []
    with MortalEndpoint(answers, lives) as endpoint:
        for number in range(60):
            with world(_make_folder(tmp_path / str(number)), config=CONFIG) as shop:
                done = night(shop, endpoint.url, NIGHTSHIFT_ISOLATION="none" if number else "auto")
                assert "Traceback" not in done.stdout + done.stderr
                assert shop.result["outcome"] in ("MR_CREATED", "NO_IMPROVEMENT", "FAILED")
                results += published(shop)
            if endpoint.deaths == len(lives):
                break
        assert endpoint.deaths == len(lives)
    assert {*results} <= {WHOLE}


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
