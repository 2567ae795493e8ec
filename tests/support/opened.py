"""What a night has left, in GitLab or as a bundle: the night itself once for all tests of this
process."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from gitlab_nightshift.demo.standin_state import RecordedRequest, StandinMergeRequest
from tests.support import kept
from tests.support.agent import plays
from tests.support.shop import GOOD, nothing
from tests.support.world import BOT_TOKEN, OUTPUT, World, world

OPENED = plays(GOOD, {"analyze": nothing()}, {"analyze-tests-1": GOOD["analyze"]})


@contextmanager
def opened(folder: Path) -> Iterator[tuple[World, StandinMergeRequest]]:
    """A world in which a night has opened a merge request: the first one that is asked for has that
    night, the others what it pushed and sent to GitLab."""
    with world(folder, OPENED) as shop:
        if not _first:
            done = shop.nightshift("run")
            assert shop.result["outcome"] == "MR_CREATED", done.log
            _first.append(keep_first_night(shop))
        else:
            repeat_first_night(shop, _first[0])
        yield shop, shop.merge_requests[0]


@dataclass(frozen=True)
class FirstNight:
    """What a night left in GitLab: the repository, and the requests by which it got there."""

    repository: Path
    address: str
    requests: list[RecordedRequest]


_first: list[FirstNight] = []


def keep_first_night(shop: World) -> FirstNight:
    kept_copy = Path(tempfile.mkdtemp(prefix="first-night-", dir=kept.folder)) / "shop.git"
    shutil.copytree(shop.project.bare_repository, kept_copy)
    asked = [each for each in shop.gitlab.requests if each.path.startswith("/api/v4/")]
    return FirstNight(kept_copy, shop.gitlab.url, [r for r in asked if r.method in ("POST", "PUT")])


def repeat_first_night(shop: World, first: FirstNight) -> None:
    shutil.copytree(first.repository, shop.project.bare_repository, dirs_exist_ok=True)
    headers = {"PRIVATE-TOKEN": BOT_TOKEN}
    for request in first.requests:
        body = json.loads(json.dumps(request.body).replace(first.address, shop.gitlab.url))
        url = f"{shop.gitlab.url}{request.path}"
        answer = requests.request(request.method, url, json=body, headers=headers, timeout=60)
        assert answer.status_code == request.status


def leave_verified(shop: World) -> None:
    """What a dry run leaves in ``nightshift/``: the run itself once for a commit."""
    output = shop.checkout / OUTPUT
    shutil.rmtree(output, ignore_errors=True)
    if shop.sha in _verified:
        shutil.copytree(_verified[shop.sha], output)
        return
    done = shop.nightshift("run", "--dry-run")
    assert (done.exit_status, shop.result["outcome"]) == (0, "MR_READY"), done.log
    _verified[shop.sha] = Path(tempfile.mkdtemp(prefix="verified-", dir=kept.folder)) / OUTPUT
    shutil.copytree(output, _verified[shop.sha])


_verified: dict[str, Path] = {}
