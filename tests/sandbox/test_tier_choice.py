"""Why a tier does not work here: the message names the file and the setting to change."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox import uid_tier
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Tier
from tests.repository.conftest import Box
from tests.repository.tools import die, fork, wait_end, write
from tests.sandbox.tools import Room, open_folder
from tests.support.kills import killed_at_each_place


def test_a_program_folder_around_the_runs_folder(any_room: Room) -> None:
    """As if ``agent_paths`` names ``/builds``, and TMPDIR lies in it."""
    tier = any_room.sandbox.tier
    with open_folder() as tools:
        scratch = tools / "tmp"
        scratch.mkdir(mode=0o711)
        if tier is Tier.UID:  # there the mode keeps it closed
            identity = choose(tier, scratch, (tools,)).identity
            assert identity
            uid_tier.release_user(identity)
            return
        with pytest.raises(NightshiftError) as caught:
            choose(tier, scratch, (tools,))
        assert caught.value.code is Code.CONFIG
        assert re.fullmatch(
            f"isolation: {tier} does not work here: an agent could read a private file:"
            f" {re.escape(str(scratch))}/probe-[^/]+/private/canary can be read, since {tools} is"
            r" opened: name a smaller folder in agent_paths, or move TMPDIR"
            r" \(isolation: auto takes the strongest that does\)",
            caught.value.message,
        )
        assert choose(tier, scratch, (Path("/bin/sh"),)).tier is tier, "the control"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_trial_folder_of_a_killed_run_is_removed(box: Box) -> None:
    """But not one that another run has locked, or that another user owns."""
    identity = uid_tier.reserve_user()
    assert identity

    def try_out(then: Callable[[], object] = lambda: None) -> None:
        with uid_tier.open_trial_folder(box.root, identity) as folder:
            write(folder, "made")
            os.chown(folder / "made", identity.uid, identity.gid)
            then()

    for place in killed_at_each_place(try_out, box.private, within="sandbox/uid_tier.py"):
        box.repair()
        assert not box.beside, place
    assert wait_end(fork(partial(try_out, die))) < 0
    assert len(box.beside) == 1, "the control"
    other = write(box.root.parent, f"{box.root.name}.nightshift-probe-abcdefgh/of/mine")
    os.chown(other.parents[1], 1234, 1234)
    with uid_tier.open_trial_folder(box.root, identity) as held:
        box.repair()
        assert box.beside == {held.name, other.parents[1].name}
    assert box.beside == {other.parents[1].name}
    uid_tier.release_user(identity)
