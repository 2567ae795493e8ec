"""The process that tries how work is confined here: it is confined as work would be, tries what
work must not be able to do, and reports the findings.
"""

from collections.abc import Mapping
from typing import Any

from gitlab_nightshift.sandbox.confinement import ConfinementMode
from gitlab_nightshift.sandbox.self_confinement import WorkNeeds, confine, try_own_access
from gitlab_nightshift.sandbox.supervised_process import forward_signals, serve_stage
from gitlab_nightshift.sandbox.visible_system import System, look_at_system


def main(_data: Mapping[str, Any]) -> int:
    """Run as a process (``sandbox/supervised_process.py``)."""
    return serve_stage(_try, forwarding=False)


def _try(inputs: Mapping[str, Any]) -> dict[str, Any]:
    confinement = confine(inputs["confined"], forward_signals)
    # Landlock alone has to name what may be read; to find it takes a tenth of a second.
    by_path = confinement.mode is ConfinementMode.LANDLOCK
    broker = confinement.complete(WorkNeeds(look_at_system() if by_path else System(())))
    findings = [
        (each.name, each.open, each.promised, each.how)
        for each in try_own_access(confinement, broker)
    ]
    return {"found": findings}
