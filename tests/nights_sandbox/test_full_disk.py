"""An agent that fills a disk fails its attempt, not the night: bytes, files, chains of folders."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nights_sandbox.test_boundary import open_folder
from tests.support.agent import answer, flood, hang, plays, raw, sh
from tests.support.disks import fill, small_disk
from tests.support.sandboxes import TIERS, scripted, tier_or_skip, with_agent
from tests.support.shop import FOUND, GOOD, nothing
from tests.support.world import World, world

ENDLESS = "cat /dev/zero >"
IN_TMPDIR = sh(f'{ENDLESS}"$TMPDIR/big"')
IN_CHECKOUT = sh(
    "truncate -s 5G sparse; mkdir new; cp shop.py new/kept.py; cp -r .git/. .git/again;"
    f" {ENDLESS}.git/junk & {ENDLESS}new/junk & {ENDLESS}shop.py; wait"
)
DEEPER = f"mkdir -p {'d/' * 100} && cd -P {'d/' * 100}"
MANY_FILES = sh(
    f'cd "$TMPDIR" && for n in $(seq 12); do {DEEPER} || break; done;'
    " n=0; while : >f$n; do n=$((n+1)); done"
)
MESSAGE = {"id": "1", "content": [{"type": "text", "text": "section_start:1:x\r\x1b[0Kplanted"}]}
CHATTY = raw((json.dumps({"type": "assistant", "message": MESSAGE}) + "\n") * 30_000)
TALKS = [raw("section_start:1:x\r\x1b[0K" * 50), flood(30_000_000, 0), raw("\n"), CHATTY]

__all__ = ["open_folder"]


@contextmanager
def crowded(folder: Path, scripts: object) -> Iterator[World]:
    """A world whose TMPDIR and whose checkout are on small disks of their own.

    The path of TMPDIR is short: below a long one an agent's folder would be in /tmp itself.
    """
    with (
        tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as tmp,
        small_disk(Path(tmp), "24m", 5000),
        small_disk(folder / "builds", "24m"),
        world(folder, scripts) as shop,  # type: ignore[arg-type]
    ):
        shop.env["TMPDIR"] = tmp
        yield shop


def test_a_night_goes_on_after_every_disk_was_full(tmp_path: Path) -> None:
    scripts = plays(
        GOOD,
        {
            "analyze": nothing(),
            "analyze-tests": [IN_TMPDIR, answer(FOUND)],
            "analyze-refactoring": [*TALKS, *GOOD["analyze"]],
            "implement-refactoring-1": [IN_CHECKOUT, *GOOD["implement"]],
            "implement-refactoring-2": [MANY_FILES, hang()],
            "mr": [IN_TMPDIR, *GOOD["mr"]],
        },
    )
    with crowded(tmp_path, scripts) as shop:
        shop.agent.ask_git()
        done = shop.nightshift("run")

        assert (done.exit_status, done.stderr) == (13, ""), done.log
        beads = shop.result["beads"]
        assert [(bead["bead"], bead["attempt"], bead["status"]) for bead in beads] == [
            ("analyze", 1, "disk_full"),
            ("analyze", 1, "ok"),
            ("implement", 1, "disk_full"),
            ("implement", 2, "disk_full"),
            ("implement", 3, "ok"),
            ("verify", 3, "ok"),
            ("mr", 1, "disk_full"),
        ]
        tmp, checkout = shop.env["TMPDIR"], f"the disk of {shop.checkout} was full"
        assert beads[0]["error"].startswith(f"the disk of {tmp}/")
        assert beads[2]["error"] == checkout
        assert beads[3]["error"].startswith(f"the disk of {tmp}/")
        assert shop.agent.seen[4].git_status == "", "the third attempt begins with a clean tree"
        assert shop.agent.seen[4].last_failure.endswith("was full")
        lines = sum("planted" in line for line in done.log.splitlines())
        assert 1 <= lines <= 2 + beads[1]["duration_s"] / 2, "of 30,000 messages"
        assert "section_start:1:x\r" not in done.stdout, "as GitLab would read it"
        assert shop.result["outcome"] == "MR_CREATED"
        assert len(shop.merge_requests) == 1
        assert done.last_line.startswith("⚠ MR_CREATED")
        shop.assert_restored()
        assert list(Path(tmp).iterdir()) == []


def test_a_disk_that_is_full_in_every_bead_is_told_as_that(tmp_path: Path) -> None:
    with crowded(tmp_path, {"analyze": [IN_TMPDIR, hang()]}) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 2, done.log
        assert (shop.result["outcome"], shop.result["error_code"]) == ("FAILED", "E_CONFIG")
        assert shop.result["reason"].startswith("in every bead (5) the disk of ")
        assert "Traceback" not in done.stdout + done.stderr
        shop.assert_restored()


def test_a_disk_that_is_full_before_the_night_is_one_line(tmp_path: Path) -> None:
    with crowded(tmp_path, GOOD) as shop:
        for place in (Path(shop.env["TMPDIR"]), shop.checkout.parent):
            filling = fill(place)
            done = shop.nightshift("run")

            assert done.exit_status == 2, done.log
            told = done.stderr.splitlines()[-1:] or [done.last_line]
            assert "E_CONFIG" in told[0]
            assert "no space left on" in told[0]
            assert "Traceback" not in done.stdout + done.stderr
            assert shop.agent.seen == []
            filling.unlink()
        shop.assert_restored()


IN_A_TIER = (
    f'(cd "$TMPDIR"; for n in 1 2 3; do {DEEPER}; done; cat /dev/zero >big);'
    " cat /dev/zero >.git/junk; cat /dev/zero >shop.py; sleep 600"
)


@pytest.mark.parametrize("tier", TIERS)
def test_what_fills_a_disk_from_a_sandbox_is_removed(tier: str, open_folder: Path) -> None:
    with (
        small_disk(open_folder / "d", "24m", 5000) as tmp,
        small_disk(open_folder / "builds", "24m"),
        world(open_folder) as shop,
    ):
        env = {
            "PATH": with_agent(shop, "filling", scripted(IN_A_TIER)),
            "TMPDIR": str(tmp),
            "NIGHTSHIFT_ISOLATION": tier_or_skip(tier),
            "NIGHTSHIFT_TASK": "Fill the disk.",
            "NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "1",
        }
        done = shop.nightshift("run", **env)

        assert (done.exit_status, done.stderr) == (9, ""), done.log
        statuses = [bead["status"] for bead in shop.result["beads"]]
        assert statuses == ["disk_full", "disk_full"]
        assert "was full" in shop.result["reason"]
        assert shop.result["isolation"].startswith(tier)
        shop.assert_restored()
        assert list(tmp.iterdir()) == []
