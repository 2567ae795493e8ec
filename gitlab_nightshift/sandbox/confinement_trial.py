"""The process that tests the work process's confinement: it is confined in the same way, tries what
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
    # Only Landlock needs the readable paths, which take a tenth of a second to find.
    system = look_at_system() if confinement.mode is ConfinementMode.LANDLOCK else System(())
    broker = confinement.complete(WorkNeeds(system))
    findings = try_own_access(confinement, broker)
    return {"found": [(each.name, each.open, each.promised, each.how) for each in findings]}
