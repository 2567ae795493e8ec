"""What reads agents' work, as a night would start it: how it is confined here, tried."""

import contextlib
from dataclasses import dataclass

from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary
from gitlab_nightshift.repository.prepared_folders import prepare
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox.confinement import ConfinementChoice, ConfinementMode
from gitlab_nightshift.sandbox.launched_process import STARTS
from gitlab_nightshift.sandbox.process_table import WORK_TRIAL
from gitlab_nightshift.sandbox.proof import ProbeFinding, summarize_findings
from gitlab_nightshift.sandbox.proof_rows import CONFINED
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.session import Session
from gitlab_nightshift.system.environment import build_search_path


@dataclass(frozen=True)
class ConfinementTrial:
    """The way, and the row of the proof."""

    chosen: ConfinementChoice
    row: ProbeSummary


def try_confinement(session: Session, namespace_failure: str) -> ConfinementTrial | None:
    """Start one and let it try, with the checkout's own ``.git`` in place, so that nothing may be
    written there. ``namespace_failure`` is why agents get no namespaces, "" where they may; None
    where nothing is confined. Raises NightshiftError."""
    run_folder = RunFolder(session.checkout, session.private)
    with (
        prepare(run_folder.checkout, run_folder.private) as prepared,
        find_confinement_paths(session.env, run_folder, prepared.places) as places,
    ):
        env = {"PATH": build_search_path(session.env, session.checkout)}
        for _ in range(STARTS):
            chosen = confinement.choose(
                session.settings.isolation, places, namespace_failure=namespace_failure
            )
            if chosen.disabled:
                return None
            with contextlib.closing(StageProcess(WORK_TRIAL, env, prefix=chosen.prefix)) as process:
                process.send_task({"confined": chosen.to_data(places)})
                found = process.read_answer().get("found", [])
            if found or not chosen.has_lost_hidden_path():
                break
    if not found:
        why = "the process that was to try it did not start"
        return ConfinementTrial(chosen, ProbeSummary(CONFINED.title, 0, GuaranteeState.BROKEN, why))
    row = summarize_findings(CONFINED, [ProbeFinding(CONFINED, *each) for each in found])
    if chosen.mode is ConfinementMode.NONE:
        row = ProbeSummary(
            row.title, row.attempts, GuaranteeState.PARTIAL, f"not confined: {chosen.why}"
        )
    return ConfinementTrial(chosen, row)
