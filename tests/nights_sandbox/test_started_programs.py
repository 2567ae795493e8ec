"""What a night asks of the machine and of GitLab, as upper bounds: who needs more says so here.

Every Python of a real night notes what it starts. What those programs start themselves, such as
git's ``remote-http``, is theirs.
"""

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from tests.support.sandboxes import scripted, with_agent
from tests.support.world import PLAIN, ROOT, World, world

ENTRY = """\
import os, subprocess, sys
from pathlib import Path

sys.path.insert(0, {root!r})
from gitlab_nightshift import sealed_entry, sealed_start

sealed_start.ENTRY = Path(__file__)
NOTES, popen = 200, subprocess.Popen.__init__
if not Path(f"/proc/self/fd/{{NOTES}}").exists():
    os.dup2(os.open({notes!r}, os.O_WRONLY), NOTES)

def start(self, args, **more):  # a process that is confined already could not open it
    if __file__ in args:
        more["pass_fds"] = [*more["pass_fds"], NOTES]
    popen(self, args, **more)

def note(event, args):
    if event == "subprocess.Popen":
        os.write(NOTES, b"\\t".join(os.fsencode(word) for word in args[1])[:4000] + b"\\n")

subprocess.Popen.__init__ = start
sys.addaudithook(note)
sys.exit(sealed_entry.enter())
"""
START = """\
import sys
from pathlib import Path
from gitlab_nightshift import cli, sealed_start

sealed_start.ENTRY = Path(sys.argv.pop(1))
sys.exit(cli.main())
"""
AGENT = scripted("printf '\\n    # A discount is in percent.\\n' >> test_shop.py")


def run_noted(shop: World) -> Counter[str]:
    """How often a night that opens a merge request starts each program. Notes come by a FIFO, which
    processes can write that see all files read-only."""
    notes, entry = shop.folder / "notes", shop.folder / "entry.py"
    os.mkfifo(notes)
    entry.write_text(ENTRY.format(root=str(ROOT), notes=str(notes)))
    found: list[str] = []
    end = os.open(notes, os.O_RDWR)  # one writer that stays: the others come and go
    reader = threading.Thread(target=lambda: found.extend(_read_notes(notes)))
    reader.start()
    try:
        env = {**shop.env, "NIGHTSHIFT_ISOLATION": "auto", "PATH": with_agent(shop, "own", AGENT)}
        command = [sys.executable, "-P", "-c", START, str(entry), "run"]
        done = subprocess.run(
            command, cwd=shop.checkout, env=env, capture_output=True, text=True, check=False
        )
    finally:
        os.close(end)
        reader.join()
    assert done.returncode == 0, done.stdout + done.stderr
    return Counter(map(_name, found))


def _read_notes(notes: Path) -> list[str]:
    with notes.open() as file:
        return file.read().splitlines()


def _name(line: str) -> str:
    """The program; for a start of a sandbox, or of this program itself, which kind."""
    words = [Path(word).name for word in line.split("\t")]
    if "entry.py" in words:
        return "own process"
    if "launcher.py" in words:
        return "in a sandbox"
    return "trial of a sandbox" if words[0] == "bwrap" else words[0].rstrip("0123456789.")


def test_a_night_with_a_change_starts_no_more_than_this(tmp_path: Path) -> None:
    """Fewer than half of a bound would let a night start twice as many unseen."""
    most = {
        "git": 45,
        "in a sandbox": 13,  # two trials, a proof, four beads, the command thrice; two more
        "own process": 12,
        "trial of a sandbox": 4,  # of work's own and of the notary's, each again if it was late
        "python": 1,  # the planted code that must not be loaded
        "request": 35,
    }
    with world(tmp_path, config=PLAIN) as shop:
        found = run_noted(shop)
        assert len(shop.merge_requests) == 1
        found["request"] = len(shop.gitlab.requests)
    assert {name: count for name, count in found.items() if count > most.get(name, 0)} == {}
    assert all(2 * found[name] > most[name] for name in ("git", "own process", "request"))
