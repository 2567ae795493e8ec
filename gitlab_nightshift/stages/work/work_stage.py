"""The work stage: a plan goes in, a bundle comes out, whatever happens in between."""

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
from gitlab_nightshift.stages.work.baseline import Baseline, run_baseline
from gitlab_nightshift.stages.work.bead import BeadContext
from gitlab_nightshift.stages.work.boundary import Boundary
from gitlab_nightshift.stages.work.boundary_proof import prove_boundary
from gitlab_nightshift.stages.work.brief.repository_brief import make_run_brief
from gitlab_nightshift.stages.work.given_task import do_task
from gitlab_nightshift.stages.work.model_access import ModelAccess, open_access
from gitlab_nightshift.stages.work.named_paths import NamedTree
from gitlab_nightshift.stages.work.night import try_categories
from gitlab_nightshift.stages.work.night_bead import Night
from gitlab_nightshift.stages.work.night_bundle import build_bundle, encode_bundle
from gitlab_nightshift.stages.work.night_ending import (
    Ending,
    build_unscheduled_ending,
    run_to_ending,
)
from gitlab_nightshift.stages.work.program_allowlist import find_cli_interpreter, restrict_programs
from gitlab_nightshift.stages.work.prompt_values import build_run_values
from gitlab_nightshift.stages.work.proof_context import ProofContext
from gitlab_nightshift.stages.work.recording import Recorder
from gitlab_nightshift.stages.work.run_budget import Ledger, open_ledger
from gitlab_nightshift.stages.work.sandboxed_checkout import (
    SandboxContext,
    SandboxedCheckout,
    open_sandboxed_checkout,
)
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_preparation import Tools, find_agent_program, prepare
from gitlab_nightshift.system.environment import build_search_path

Keep = Callable[[str, bytes], None]
"""Takes a product of the run by its name below the output folder, whole."""


@dataclass(frozen=True)
class Workflow:
    """The steps in the sandbox: ``first`` before there is any agent, ``then`` with agents.

    ``prepare`` makes ready what they need; ``any_day`` says that they are done on a day without a
    night, too.
    """

    first: Callable[[WorkContext, Checkout, Runner], Baseline]
    then: Callable[[Night], Ending]
    prepare: Callable[[WorkContext], Tools] = prepare
    any_day: bool = False


def _run_baseline(place: WorkContext, checkout: Checkout, runner: Runner) -> Baseline:
    return run_baseline(place.verify, place.settings.baseline, checkout, runner, place.emit)


def _run_night(night: Night) -> Ending:
    """Try the plan's categories, or do the given task."""
    return do_task(night) if night.plan.task else try_categories(night)


NIGHT = Workflow(_run_baseline, _run_night)


def work(
    plan: Plan,
    place: WorkContext,
    gateway: RemoteGateway | None,
    keep: Keep,
    workflow: Workflow = NIGHT,
    before: Iterable[BeadResult] = (),
) -> Bundle:
    """Run the night, or another workflow; ``keep`` gets ``change.patch`` and ``bundle.json``.
    The beads ``before`` it count, too.

    Never raises: the bundle's outcome says so where there was a failure, a signal or a defect of
    this program.

    Both are kept before the checkout is put back for good: whatever becomes of that, the night's
    work is not lost.
    """
    started = read_clock()
    ledger = open_ledger(plan, place.seconds, before)
    place.logs.reserve.hold()

    def write(ending: Ending) -> Bundle:
        place.logs.reserve.release()
        bundle = build_bundle(plan, ending, ledger, read_clock() - started)
        patch = ending.captured.patch if ending.captured else b""
        keep("bundle/change.patch", patch)
        keep("bundle/bundle.json", encode_bundle(bundle))
        return bundle

    return write(_run_plan(plan, place, gateway, ledger, workflow, write))


def _run_plan(
    plan: Plan,
    place: WorkContext,
    gateway: RemoteGateway | None,
    ledger: Ledger,
    workflow: Workflow,
    write: Callable[[Ending], object],
) -> Ending:
    """How the night ends. ``write`` is called with that before the sandbox is closed."""
    if (plan.skip or not plan.scheduled) and not workflow.any_day:
        return build_unscheduled_ending(plan)
    disks, written = (place.private, place.checkout), list[Ending]()

    def run_and_write(make: Callable[[], Ending]) -> Ending:
        written.append(run_to_ending(plan, place.logs, disks, make))
        write(written[0])
        return written[0]

    def prepare_and_run() -> Ending:
        tools = workflow.prepare(place)
        return run_workflow(plan, place, tools, ledger, workflow, gateway, run_and_write)

    ending = run_to_ending(plan, place.logs, disks, prepare_and_run)
    if written and ending is not written[0]:  # stopped while the checkout was put back
        return dataclasses.replace(written[0], reason=ending.reason, error_code=ending.error_code)
    return ending


def run_workflow(
    plan: Plan,
    place: WorkContext,
    tools: Tools,
    ledger: Ledger,
    workflow: Workflow,
    gateway: RemoteGateway | None,
    inside: Callable[[Callable[[], Ending]], Ending] = lambda make: make(),
) -> Ending:
    """Open the sandbox, run the workflow in it, put all back. ``inside`` calls the workflow.

    Raises NightshiftError, Interruption.
    """
    path = build_search_path(place.env, place.checkout)
    sandbox_context = SandboxContext(
        work=place,
        gateway=gateway,
        run_id=plan.run_id,
        places=tools.provider.list_readable_paths(path),
        left_s=ledger.compute_left_s,
    )
    with open_sandboxed_checkout(sandbox_context) as sandboxed:
        _check_base(plan, sandboxed.checkout)
        ledger.isolation = str(sandboxed.boundary)  # known from here on, however the run ends
        return inside(lambda: _run_in_sandbox(sandboxed, plan, place, tools, ledger, workflow))


def _check_base(plan: Plan, checkout: Checkout) -> None:
    if checkout.base_sha != plan.base_sha:
        text = f"the plan was made for commit {plan.base_sha[:12]}, not {checkout.base_sha[:12]}"
        raise NightshiftError(Code.CONFIG, text)


def _run_in_sandbox(
    sandboxed: SandboxedCheckout,
    plan: Plan,
    place: WorkContext,
    tools: Tools,
    ledger: Ledger,
    workflow: Workflow,
) -> Ending:
    checkout, gateway, socket = (
        sandboxed.checkout,
        sandboxed.sandbox_context.gateway,
        sandboxed.sockets / "gateway",
    )
    with sandboxed.open_runner() as (boundary, egress, runner):
        before = workflow.first(place, checkout, runner)
        ledger.note_baseline(before.results)
        if before.skip and not ledger.late():
            skipped = Ending(Outcome.SKIPPED, before.skip, plan.scheduled)
            return dataclasses.replace(skipped, incomplete=before.incomplete)
        proof = _build_proof_context(plan, place, runner, before, checkout)
        access = open_access(tools.provider, place.env, egress, gateway, socket, place.emit)
        night = _prepare_night(plan, place, tools, ledger, checkout, proof, access, boundary)
        ending = workflow.then(night)
        incomplete = filter(None, (before.incomplete, ending.incomplete))
        return dataclasses.replace(ending, incomplete=". ".join(incomplete))


def _prepare_night(
    plan: Plan,
    place: WorkContext,
    tools: Tools,
    ledger: Ledger,
    checkout: Checkout,
    proof: ProofContext,
    access: ModelAccess,
    boundary: Boundary,
) -> Night:
    boundary = dataclasses.replace(boundary, gates=(*boundary.gates, *access.gates))
    cli = find_agent_program(place, tools.provider)
    boundary = restrict_programs(_keep_programs(boundary, cli, place.emit), place, cli)
    hidden = dataclasses.replace(checkout, secrets=(*checkout.secrets, *place.secrets))
    path = build_search_path(place.env, place.checkout)
    prove_boundary(
        boundary, hidden, place.private, place.home, place.named, path, place.emit, place.own
    )
    recorder = _build_recorder(place, tools)
    recorder.start(checkout.path)
    values = build_run_values(
        plan, place.settings, place.job, place.allowed_commands, place.build_commands
    )
    bead_context = _build_bead_context(place, tools, ledger, recorder, access, boundary, checkout)
    ran = proof.baseline.results
    brief = make_run_brief(plan, checkout, place.build_commands, ran, place.emit)
    bead_context = dataclasses.replace(bead_context, brief=brief)
    return Night(plan, bead_context, checkout, proof, values, recorder)


def _keep_programs(boundary: Boundary, cli: Path, emit: Emit) -> Boundary:
    """The checkout's folders of PATH, which agents may read. One in which git or the agent's CLI
    would find another program than this process did is left out."""
    names = {"git", cli.name, find_cli_interpreter(cli)} - {""}
    shadows = [p for p in boundary.programs if any((p / name).exists() for name in names)]
    for folder in shadows:
        emit(Note(f"agents do not have {folder} on PATH: it holds git, or what their CLI needs"))
    kept = tuple(folder for folder in boundary.programs if folder not in shadows)
    return dataclasses.replace(boundary, programs=kept, read_only=(*boundary.read_only, *kept))


def _build_proof_context(
    plan: Plan, place: WorkContext, runner: Runner, before: Baseline, checkout: Checkout
) -> ProofContext:
    ci_config = place.job.ci_config_path
    return ProofContext(
        work=place,
        recent_files=frozenset(plan.recent_files if plan.recent_files_enforced else ()),
        runner=runner,
        baseline=before,
        ci_files=read_pipeline_files(checkout.repository, checkout.base_sha, ci_config),
        known=() if plan.task else (*plan.rejected_ideas, *plan.open_merge_requests),
        canaries=BaseCanaries(unable="the commands fail on the base" if before.red else ""),
    )


def _build_bead_context(
    place: WorkContext,
    tools: Tools,
    ledger: Ledger,
    recorder: Recorder,
    access: ModelAccess,
    boundary: Boundary,
    checkout: Checkout,
) -> BeadContext:
    roots = tuple(dict.fromkeys((str(checkout.path), str(place.checkout))))
    return BeadContext(
        work=place,
        provider=tools.provider,
        templates=tools.templates,
        ledger=ledger,
        access=access,
        boundary=boundary,
        keep=recorder.keep,
        tree=NamedTree(roots, checkout.saved.entries),
    )


def _build_recorder(place: WorkContext, tools: Tools) -> Recorder:
    folder = place.settings.record_dir
    return Recorder(Path(folder) if folder else None, tools.provider.name, place.redact)
