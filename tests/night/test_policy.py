"""What this program refuses by itself counts as a failed verify, with its text."""

import json
from pathlib import Path

from tests.support.agent import Step, append, plays, sh, write
from tests.support.shop import GOOD, TEST
from tests.support.world import git, world

BREACHES: list[tuple[Step, str]] = [
    (write("large.txt", "line\n" * 98), "The diff has 101 added and deleted lines"),
    (write("web/package.json", "{}\n"), "web/package.json is a dependency manifest or lock file."),
    (append("notes.txt", "x\n"), "notes.txt was changed by a recent commit and is left alone."),
    (write("lib/x.py", "x = 1\n"), "lib/x.py is outside of policy.writable_paths."),
    (write("legal/a.txt", "x\n"), "legal/a.txt is outside the paths of this night."),
    (sh("mkfifo pipe"), "pipe: it is no file or folder."),
    (sh("ln shop.py twin.py"), "twin.py: it has several hard links."),
    (sh("mkdir -p a/.git && echo x > a/.git/config"), "git keeps such names for itself."),
    (sh("head -c 6000000 /dev/zero > big.bin"), "big.bin: it is larger than 5000000 bytes."),
]

WRITABLE = "policy: {gates: {write: deny}, writable_paths: ['*.txt', 'test_*', web/]}\n"


def test_each_breach_is_told_to_the_next_attempt(tmp_path: Path) -> None:
    """One after the other, without a Verify; the attempt without a breach is published."""
    attempts = {
        f"implement-tests-{number}": [append("test_shop.py", TEST), breach]
        for number, (breach, _) in enumerate(BREACHES, 1)
    }
    config = "exclude_paths: [legal/]\nmax_implement_retries: 10\n" + WRITABLE
    with world(tmp_path, plays(GOOD, attempts), config=config) as shop:
        done = shop.nightshift("run")

        assert done.exit_status == 0
        assert shop.agent.names[-2:] == ["verify-tests-10", "mr-tests-1"]
        implements = [bead for bead in shop.agent.seen if bead.bead == "implement"]
        assert len(shop.agent.seen) == len(implements) + 3
        for (_, text), told in zip(BREACHES, implements[1:], strict=True):
            assert text in told.prompt.partition("<why_the_last_attempt_failed>\n")[2]
            assert told.tree == implements[0].tree
        [mr] = shop.merge_requests
        changed = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert changed == "test_shop.py\n"
        shop.assert_put_back()


def test_a_night_looks_only_where_it_is_told_to(tmp_path: Path) -> None:
    outside = {"implement-tests-1": [append("shop.py", "# x\n")]}
    with world(tmp_path, plays(GOOD, outside), config="paths: [test_*.py]\n") as shop:
        assert shop.nightshift("run").exit_status == 0
        assert "Look and change only here: test_*.py." in shop.agent.seen[0].prompt
        assert shop.agent.names[1:3] == ["implement-tests-1", "implement-tests-2"]
        told = shop.agent.last("implement-tests-2").prompt
        assert "shop.py is outside the paths of this night." in told


def test_publish_holds_the_change_against_the_policy_once_more(tmp_path: Path) -> None:
    """The bundle comes from a job that agents ran in: its own word is not enough."""
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        done = shop.nightshift("publish", NIGHTSHIFT_EXCLUDE_PATHS="test_shop.py")
        assert done.exit_status == 3
        assert shop.result["error_code"] == "E_POLICY_DENY"
        assert "test_shop.py is outside the paths of this night." in done.last_line
        assert shop.written == []


def test_a_bundle_with_a_code_that_does_not_exist(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        assert shop.nightshift("run", "--dry-run").exit_status == 0
        place = shop.checkout / "nightshift" / "bundle" / "bundle.json"
        bundle = {**json.loads(place.read_text()), "outcome": "FAILED", "error_code": "E_WHATEVER"}
        place.write_text(json.dumps(bundle))
        done = shop.nightshift("publish")
        assert (done.exit_status, done.stderr) == (10, ""), done.log
        assert shop.written == []
