"""A change that this program refuses counts as a failed Verify, with the reason."""

from pathlib import Path

from tests.support.agent import Step, append, plays, sh, write
from tests.support.shop import GOOD, NOTE
from tests.support.world import PLAIN, git, world

BREACHES: list[tuple[Step, str]] = [
    (write("large.txt", "line\n" * 99), "The diff has 101 added and deleted lines"),
    (write("web/package.json", "{}\n"), "web/package.json is a dependency manifest or lock file."),
    (append("notes.txt", "x\n"), "notes.txt was changed by a recent commit: leave it alone."),
    (write("lib/x.py", "x = 1\n"), "lib/x.py is outside policy.writable_paths."),
    (write("legal/a.txt", "x\n"), "legal/a.txt is outside the paths for this night."),
    (append("shop.py", "# x\n"), "shop.py is outside the paths for this night."),
    (sh("mkfifo pipe"), "pipe: it is no file or folder."),
    (sh("ln shop.py twin.py"), "twin.py: it has several hard links."),
    (sh("mkdir -p a/.git && echo x > a/.git/config"), "git reserves such names."),
    (sh("head -c 6000000 /dev/zero > big.bin"), "big.bin: it is larger than 5000000 bytes."),
]

CONFIG = """\
paths: ['*.txt', 'test_*', web/, lib/]
exclude_paths: [legal/]
max_implement_retries: 10
policy: {gates: {write: deny}, writable_paths: ['*.txt', 'test_*', web/]}
"""


def test_each_breach_is_told_to_the_next_attempt(tmp_path: Path) -> None:
    """One after the other, without a Verify; the attempt without a breach is published."""
    attempts = {
        f"implement-tests-{number}": [append("test_shop.py", NOTE), breach]
        for number, (breach, _) in enumerate(BREACHES, 1)
    }
    with world(tmp_path, plays(GOOD, attempts), config=PLAIN + CONFIG) as shop:
        shop.ends(0, "run")
        assert shop.agent.names[-2:] == ["verify-tests-11", "mr-tests-1"]
        assert "Look and change only here: *.txt, test_*" in shop.agent.seen[0].prompt
        implements = [bead for bead in shop.agent.seen if bead.bead == "implement"]
        assert len(shop.agent.seen) == len(implements) + 3
        for (_, text), told in zip(BREACHES, implements[1:], strict=True):
            assert text in told.prompt.partition("<why_the_last_attempt_failed>\n")[2]
            assert told.tree == implements[0].tree
        [mr] = shop.merge_requests
        changed = git(shop.project.bare_repository, "diff", "--name-only", shop.sha, mr.sha)
        assert changed == "test_shop.py\n"
