"""A scene for a night that somebody else runs: ``python stage.py ROOT``.

Writes ``places.json``, says ``ready`` and waits for a line of JSON with the outcomes and what was
other than planned (``checkout``), and the ``tier``; then it prints what came of each attack.
"""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.attacks.drive import end_daemons, in_the_end, judged
from tests.attacks.scene import Flags, scene

NO_GATEWAY = {"gateway": 0, "placeholder": "", "old_placeholder": "sk-old", "model": ""}


def main(root: Path) -> None:
    os.setsid()
    flags = Flags(os.environ["NIGHT_FLAG"].rpartition("-")[0])
    with scene(root, flags, NO_GATEWAY) as places:
        (root / "places.json").write_text(json.dumps(asdict(places)))
        print("ready", flush=True)
        task = json.loads(sys.stdin.readline())
        there = in_the_end(replace(places, checkout=task["checkout"]), task["tier"])
        try:
            found = judged(there, flags, task["outcomes"])
        finally:
            end_daemons(Path(places.scratch))
        print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
