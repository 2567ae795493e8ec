"""Prove the tiers that work here, and print the results as JSON (for ``auto``, only its tier).

    python drive.py FOLDER TIER...

Needs only the package itself, so that any Python of the machine can run it.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.sandbox.launch import Sandbox
from gitlab_nightshift.sandbox.probe_run import open_greeter, open_tcp_listener, open_unix_listener
from gitlab_nightshift.sandbox.probes import ProbeTargets
from gitlab_nightshift.sandbox.proof import judge_guarantees, prove
from gitlab_nightshift.sandbox.tier_choice import choose
from gitlab_nightshift.sandbox.tiers import Confinement, ServicePort


def main(folder: Path, tiers: list[str]) -> None:
    print(json.dumps({tier: _tier(folder, tier) for tier in tiers}))


def _tier(folder: Path, tier: str) -> dict[str, object]:
    try:
        sandbox = choose(tier, folder)
    except NightshiftError as error:
        return {"code": error.code, "missing": error.message}
    return {"tier": sandbox.tier, **({} if tier == "auto" else _proven(folder, sandbox))}


def _proven(folder: Path, sandbox: Sandbox) -> dict[str, object]:
    scratch = folder / f"scratch-{sandbox.tier}"
    scratch.mkdir()
    if sandbox.identity:
        os.chown(scratch, sandbox.identity.uid, sandbox.identity.gid)
    hidden = folder / "private"
    hidden.mkdir(mode=0o700, exist_ok=True)
    (hidden / "token").write_text("glpat-secret")
    with (
        open_tcp_listener() as tcp,
        open_unix_listener(hidden / "socket") as unix,
        open_greeter(tcp, unix),
    ):
        service = ServicePort(tcp.getsockname()[1], hidden / "socket")
        confinement = Confinement(scratch, (scratch,), services=(service,))
        targets = ProbeTargets((hidden, hidden / "token"), (folder, hidden, Path("/tmp")))
        proof = prove(sandbox, confinement, targets)
    return {
        "trouble": proof.failure,
        "holes": proof.holes,
        "open": [f.name for f in proof.findings if f.open],
        "held": [f.name for f in proof.findings if not f.open],
        "rows": [row.title for row in proof.rows],
        "promises": [str(each) for each in judge_guarantees(sandbox.guarantees, proof.findings)],
        "features": vars(sandbox.features),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
