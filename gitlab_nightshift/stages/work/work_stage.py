"""The work stage: a plan goes in, and a bundle always comes out."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.proof.running.base_canaries import BaseCanaries
from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.records.events import Emit, Note, read_clock
from gitlab_nightshift.records.products import Bundle, Outcome, Plan
from gitlab_nightshift.repository.checkout import Checkout
from gitlab_nightshift.repository.pipeline_config import read_pipeline_files
from gitlab_nightshift.stages.work.baseline import Baseline, ProofContext
from gitlab_nightshift.stages.work.bead import BeadContext
from gitlab_nightshift.stages.work.bead_prompt import build_run_values
from gitlab_nightshift.stages.work.boundary import Boundary, prove_boundary
from gitlab_nightshift.stages.work.brief.repository_brief import make_run_brief
from gitlab_nightshift.stages.work.cited_files import PathResolver
from gitlab_nightshift.stages.work.gateway_access import ModelAccess, open_access
from gitlab_nightshift.stages.work.hidden_files import find_hidden_files
from gitlab_nightshift.stages.work.night import Night
from gitlab_nightshift.stages.work.night_ending import (
    Ending,
    build_bundle,
    build_unscheduled_ending,
    encode_bundle,
    run_to_ending,
)
from gitlab_nightshift.stages.work.program_allowlist import find_cli_interpreter, restrict_programs
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.run_budget import Ledger, open_ledger
from gitlab_nightshift.stages.work.sandboxed_checkout import (
    SandboxContext,
    SandboxedCheckout,
    open_sandboxed_checkout,
)
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.workflows import AgentSetup, Workflow, find_agent_program
from gitlab_nightshift.system.file_names import format_path
from gitlab_nightshift.text.printable_text import join_some

MOST_NAMED = 8
"""Hidden files that the job log names."""
Store = Callable[[str, bytes], None]
"""Stores a product of the run, by its name below the output folder."""


def work(
    plan: Plan,
    work_context: WorkContext,
    gateway: RemoteGateway | None,
    store: Store,
    workflow: Workflow,
    earlier_beads: Iterable[BeadResult] = (),
) -> Bundle:
    """Run the workflow, and ``store`` its ``change.patch`` and ``bundle.json``: before the checkout
    is finally restored, and once more at the end. ``earlier_beads`` count towards the budget.

    Never raises: failures, signals and bugs become the bundle's outcome.
    """
    started_s = read_clock()
    ledger = open_ledger(plan, work_context.time_limit_s, earlier_beads)
    work_context.logs.reserve.allocate()

    def write(ending: Ending) -> Bundle:
        # The bundle must fit on the disk even if an agent has filled it.
        work_context.logs.reserve.release()
        bundle = build_bundle(plan, ending, ledger, read_clock() - started_s)
        patch = ending.captured.patch if ending.captured else b""
        store("bundle/change.patch", patch)
        store("bundle/bundle.json", encode_bundle(bundle))
        return bundle

    return write(_run_plan(plan, work_context, gateway, ledger, workflow, write))


def _run_plan(
    plan: Plan,
    work_context: WorkContext,
    gateway: RemoteGateway | None,
    ledger: Ledger,
    workflow: Workflow,
    write: Callable[[Ending], object],
) -> Ending:
    """Run the workflow to its ending, and ``write`` that ending before the checkout is finally
    restored, so that a failure to restore does not lose the night's work."""
    # The plan may come from an earlier job, before all nights were switched off.
    plan = dataclasses.replace(plan, skip=plan.skip or work_context.settings.off_reason)
    if (plan.skip or not plan.scheduled) and not workflow.runs_unscheduled:
        return build_unscheduled_ending(plan)
    written: list[Ending] = []

    def run_and_write(run: Callable[[], Ending]) -> Ending:
        written.append(run_to_ending(plan, work_context, run))
        write(written[0])
        return written[0]

    def prepare_and_run() -> Ending:
        chosen_plan, context = workflow.choose_checkout(plan, work_context)
        setup = workflow.prepare(context)
        return run_workflow(chosen_plan, context, setup, ledger, workflow, gateway, run_and_write)

    ending = run_to_ending(plan, work_context, prepare_and_run)
    if written and ending is not written[0]:  # stopped while the checkout was being restored
        return dataclasses.replace(written[0], reason=ending.reason, error_code=ending.error_code)
    return ending


def run_workflow(
    plan: Plan,
    work_context: WorkContext,
    setup: AgentSetup,
    ledger: Ledger,
    workflow: Workflow,
    gateway: RemoteGateway | None,
    run_inside: Callable[[Callable[[], Ending]], Ending] = lambda run: run(),
) -> Ending:
    """Open the sandbox, run the workflow in it, restore everything. While the sandbox is open,
    ``run_inside`` is called with a function that runs the workflow.

    Raises NightshiftError, Interruption.
    """
    sandbox_context = SandboxContext(
        work=work_context,
        gateway=gateway,
        run_id=plan.run_id,
        cli_files=setup.provider.list_readable_paths(work_context.search_path),
        left_s=ledger.compute_left_s,
    )
    with open_sandboxed_checkout(sandbox_context) as sandboxed:
        planned, actual = plan.base_sha, sandboxed.checkout.base_sha
        if planned != actual:
            text = f"the plan was made for commit {planned[:12]}, not {actual[:12]}"
            raise NightshiftError(Code.CONFIG, text)
        # Recorded now, so that the bundle names the boundary however the run ends.
        ledger.isolation = str(sandboxed.boundary)
        return run_inside(_WorkflowRun(plan, work_context, setup, ledger, workflow, sandboxed).run)


@dataclass(frozen=True)
class _WorkflowRun:
    """A workflow that runs in an open sandbox."""

    plan: Plan
    work_context: WorkContext
    setup: AgentSetup
    ledger: Ledger
    workflow: Workflow
    sandboxed: SandboxedCheckout

    @property
    def checkout(self) -> Checkout:
        return self.sandboxed.checkout

    def run(self) -> Ending:
        with self.sandboxed.open_runner() as (boundary, egress, runner):
            baseline = self.workflow.run_baseline(self.work_context, self.checkout, runner)
            self.ledger.note_baseline(baseline.results)
            if baseline.skip and not self.ledger.is_late():
                skipped = Ending(Outcome.SKIPPED, baseline.skip, self.plan.scheduled)
                return dataclasses.replace(skipped, incomplete=baseline.incomplete)
            access = open_access(
                self.setup.provider,
                self.work_context.env,
                egress,
                self.sandboxed.sandbox_context.gateway,
                self.sandboxed.sockets / "gateway",
                self.work_context.emit,
            )
            ending = self.workflow.run(self._prepare_night(runner, baseline, access, boundary))
            incomplete = filter(None, (baseline.incomplete, ending.incomplete))
            return dataclasses.replace(ending, incomplete=". ".join(incomplete))

    def _prepare_night(
        self, runner: Runner, baseline: Baseline, access: ModelAccess, boundary: Boundary
    ) -> Night:
        work = self.work_context
        proof = self._build_proof_context(runner, baseline)
        boundary = self._build_agent_boundary(boundary, access)
        recorder = Recorder(
            Path(work.settings.record_dir) if work.settings.record_dir else None,
            self.setup.provider.name,
            work.redact,
        )
        recorder.start(self.checkout.path)
        run_values = build_run_values(self.plan, work)
        # The checkout may be reached through a link, so an agent may know it by either path.
        roots = dict.fromkeys((str(self.checkout.path), str(work.checkout)))
        brief = make_run_brief(
            self.plan, self.checkout, work.build_commands, baseline.results, work.emit
        )
        bead_context = BeadContext(
            work=work,
            provider=self.setup.provider,
            templates=self.setup.templates,
            ledger=self.ledger,
            access=access,
            boundary=boundary,
            record_bead=recorder.record_bead,
            paths=PathResolver(tuple(roots), self.checkout.saved.entries),
            brief=brief,
            hidden=self._find_hidden_files(),
        )
        return Night(self.plan, bead_context, self.checkout, proof, run_values, recorder)

    def _build_proof_context(self, runner: Runner, baseline: Baseline) -> ProofContext:
        plan, ci_config = self.plan, self.work_context.job.ci_config_path
        checkout = self.checkout
        return ProofContext(
            work=self.work_context,
            recent_files=frozenset(plan.recent_files if plan.recent_files_enforced else ()),
            runner=runner,
            baseline=baseline,
            ci_files=read_pipeline_files(checkout.repository, checkout.base_sha, ci_config),
            known_ideas=() if plan.task else (*plan.rejected_ideas, *plan.open_merge_requests),
            canaries=BaseCanaries(unable="the commands fail on the base" if baseline.red else ""),
        )

    def _build_agent_boundary(self, boundary: Boundary, access: ModelAccess) -> Boundary:
        """Add the gateway's port for the model and the agents' PATH to the commands' boundary, and
        prove that nothing breaks out of it. Raises NightshiftError."""
        work = self.work_context
        cli = find_agent_program(work, self.setup.provider)
        boundary = dataclasses.replace(boundary, services=(*boundary.services, *access.services))
        boundary = restrict_programs(_open_program_folders(boundary, cli, work.emit), work, cli)
        secrets = (*self.checkout.secrets, *work.secrets)
        prove_boundary(boundary, dataclasses.replace(self.checkout, secrets=secrets), work)
        return boundary

    def _find_hidden_files(self) -> tuple[str, ...]:
        """Find and log the secret files that this agent must not see in the checkout."""
        if not self.setup.provider.info.hides_secrets:
            return ()
        hidden = find_hidden_files(self.checkout.saved)
        if hidden:
            names = join_some(list(map(format_path, hidden)), MOST_NAMED)
            self.work_context.emit(Note(f"taken away while the agent works: {names}"))
        return hidden


def _open_program_folders(boundary: Boundary, cli: Path, emit: Emit) -> Boundary:
    """Let agents read the checkout's folders on PATH. A folder that would shadow git, the agent's
    CLI or its interpreter is removed from their PATH instead."""
    names = {"git", cli.name, find_cli_interpreter(cli)} - {""}
    opened = []
    for folder in boundary.program_folders:
        if any((folder / name).exists() for name in names):
            text = "it contains git, their CLI or its interpreter"
            emit(Note(f"{folder} is not on the agents' PATH: {text}"))
        else:
            opened.append(folder)
    read_only = (*boundary.read_only, *opened)
    return dataclasses.replace(boundary, program_folders=tuple(opened), read_only=read_only)
