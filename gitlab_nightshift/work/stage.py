"""The work stage: a plan goes in, a bundle comes out, whatever happens in between."""

import dataclasses
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gitlab_nightshift.errors import Code, Interrupted, NightshiftError
from gitlab_nightshift.events import Emit, Note, StepEnded, StepStarted, now_s
from gitlab_nightshift.host.checkout import Checkout, open_checkout
from gitlab_nightshift.host.environment import build_bead_env, search_path
from gitlab_nightshift.host.paths import short_folder
from gitlab_nightshift.host.process import Limits
from gitlab_nightshift.prompts import BEADS, bead_prompt, load_bead_prompt
from gitlab_nightshift.records import Bundle, CommandResult, Outcome, Plan, map_texts, write_record
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Job, Settings
from gitlab_nightshift.verdict.commands import failure_text, run_commands
from gitlab_nightshift.work.access import ModelAccess, open_access
from gitlab_nightshift.work.agents import provider_of
from gitlab_nightshift.work.agents.base import Provider
from gitlab_nightshift.work.attempt import Proof
from gitlab_nightshift.work.bead import Bench
from gitlab_nightshift.work.boundary import Boundary, open_boundary, proven
from gitlab_nightshift.work.context import bead_values, run_values
from gitlab_nightshift.work.ledger import Ledger, open_ledger
from gitlab_nightshift.work.night import Ending, Night, nothing_scheduled, run_night
from gitlab_nightshift.work.recording import Recorder


@dataclass(frozen=True)
class WorkPlace:
    """Where and with what the work is done; no GitLab credential is in it.

    ``env`` is the part of the job's environment that agents may be given, ``model_env`` what the
    way to the model needs, the key among it; ``config_folder`` is
    where relative template paths start; ``home`` this machine's own (git settings);
    ``private`` a folder no part of the checkout, ``logs``
    below it; ``seconds`` what the work may take (None: no deadline).
    """

    settings: Settings
    job: Job
    env: Mapping[str, str]
    model_env: Mapping[str, str] = field(repr=False)
    checkout: Path
    config_folder: Path
    home: Path
    private: Path
    logs: Path
    allowed_commands: tuple[str, ...]
    build_commands: tuple[str, ...]
    seconds: float | None
    redact: Redactor
    emit: Emit


@dataclass(frozen=True)
class Tools:
    """What is found out before the first model request: the provider and the templates."""

    provider: Provider
    templates: Mapping[str, str]


def prepare(place: WorkPlace) -> Tools:
    """Check all that can be known beforehand: templates, commands, the agent's CLI and key.

    Raises :class:`NightshiftError` (``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``).
    """
    templates = load_templates(place)
    provider = provider_of(place.settings)
    provider.check({**place.model_env, **place.env})
    return Tools(provider, templates)


def load_templates(place: WorkPlace) -> dict[str, str]:
    """The four templates, checked."""
    return {bead: load_bead_prompt(bead, place.settings, place.config_folder) for bead in BEADS}


def prompts_preview(place: WorkPlace, plan: Plan) -> dict[str, str]:
    """The prompts of the first category as they would be sent; later values stand empty."""
    run = run_values(plan, place.settings, place.job, place.allowed_commands, place.build_commands)
    category = next(iter(plan.categories), "tests")
    values = bead_values(run, place.settings, category, left_s=place.seconds)
    places = {"handoff_file": "<hand-off folder>/handoff.json"}
    places["analysis_file"] = "<hand-off folder>/analysis.json"
    loaded = load_templates(place)
    return {bead: bead_prompt(loaded[bead], {**values, **places}) for bead in BEADS}


def work(plan: Plan, place: WorkPlace, bundle_folder: Path) -> Bundle:
    """Run the night and write ``bundle.json`` and ``change.patch``. Never raises: a failure, a
    signal or a defect of this program is an outcome of the bundle."""
    started = now_s()
    ledger = open_ledger(plan, place.seconds)
    ending = _ending(plan, place, ledger)
    bundle = _told(_bundle(plan, ending, ledger, now_s() - started), place.redact)
    bundle_folder.mkdir(parents=True, exist_ok=True)
    (bundle_folder / "change.patch").write_bytes(ending.captured.patch if ending.captured else b"")
    write_record(bundle_folder / "bundle.json", bundle)
    return bundle


def _ending(plan: Plan, place: WorkPlace, ledger: Ledger) -> Ending:
    """The one function of this stage where an exception becomes a result."""
    if plan.skip or not plan.scheduled:
        return nothing_scheduled(plan)
    try:
        tools = prepare(place)
        with open_checkout(
            place.checkout,
            output_dir=place.settings.output_dir,
            private=place.private,
            search_path=search_path(place.env, place.checkout),
            run_id=plan.run_id,
            real_home=place.home,
        ) as checkout:
            return _in_checkout(plan, place, tools, ledger, checkout)
    except NightshiftError as error:
        return _failed(plan, error.code, error.message)
    except Interrupted as stop:
        return _failed(plan, stop.code, "stopped by a signal")
    except Exception as error:
        (place.logs / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        text = f"a defect of nightshift: {type(error).__name__}; see logs/traceback.txt"
        return _failed(plan, Code.INTERNAL, text)


def _in_checkout(
    plan: Plan, place: WorkPlace, tools: Tools, ledger: Ledger, checkout: Checkout
) -> Ending:
    if checkout.base_sha != plan.base_sha:
        text = f"the plan was made for commit {plan.base_sha[:12]}, not {checkout.base_sha[:12]}"
        raise NightshiftError(Code.CONFIG, text)
    path = search_path(place.env, place.checkout)
    places = tools.provider.places(path)
    with short_folder(place.private) as sockets:
        boundary = open_boundary(place.settings, checkout, sockets, places, path, place.emit)
        ledger.isolation = str(boundary)  # known from here on, however the run ends
        return _behind(boundary, plan, place, tools, ledger, checkout, sockets / "gateway")


def _behind(
    boundary: Boundary,
    plan: Plan,
    place: WorkPlace,
    tools: Tools,
    ledger: Ledger,
    checkout: Checkout,
    socket: Path,
) -> Ending:
    proof = _proof(plan, place, ledger, boundary)
    baseline, notes = _baseline(place, checkout, proof)
    if baseline and not ledger.late():
        return Ending(Outcome.SKIPPED, baseline, plan.scheduled)
    recorder = _recorder(place, tools)
    recorder.start(checkout.path)
    proof = dataclasses.replace(proof, notes=notes, baseline_red=bool(notes))
    values = run_values(
        plan, place.settings, place.job, place.allowed_commands, place.build_commands
    )
    with open_access(place.settings, tools.provider, place.model_env, socket, place.emit) as access:
        boundary = dataclasses.replace(boundary, gates=access.gates)
        proven(boundary, checkout, place.private, place.home)
        bench = _bench(place, tools, ledger, recorder, access, boundary)
        night = Night(plan, place.settings, bench, checkout, proof, values, recorder)
        return run_night(night)


def _baseline(place: WorkPlace, checkout: Checkout, proof: Proof) -> tuple[str, tuple[str, ...]]:
    """Why the night is skipped ("" where it is not), and what the merge request has to say."""
    if not place.settings.verify_commands:
        return "", ()
    place.emit(StepStarted("baseline", "Baseline · verify_commands on the untouched checkout"))
    results = run_commands(
        place.settings.verify_commands,
        checkout=checkout.path,
        env=proof.env,
        logs=place.logs,
        name="baseline",
        limits=proof.limits(),
        emit=place.emit,
        confined=proof.confined,
    )
    checkout.put_back(keep_watched=True)
    failed = failure_text(results, place.logs, "baseline")
    place.emit(StepEnded("baseline", not failed, _baseline_line(results)))
    if not failed:
        return "", ()
    first = failed.partition("\n")[0]
    if place.settings.baseline == "required":
        return f"verify_commands fail on the untouched checkout: {first} Mend that first.", ()
    note = f"On the untouched checkout this failed already: {first}"
    place.emit(Note(note, warning=True))
    return "", (note,)


def _baseline_line(results: tuple[CommandResult, ...]) -> str:
    good = sum(result.ok for result in results)
    return f"{good} of {len(results)} commands passed"


def _proof(plan: Plan, place: WorkPlace, ledger: Ledger, boundary: Boundary) -> Proof:
    home = place.private / "commands"
    for part in (home / "home", home / "tmp"):
        part.mkdir(parents=True, exist_ok=True)
    env = build_bead_env(
        place.env,
        place.settings.agent_env,
        home=home / "home",
        tmp=home / "tmp",
        checkout=place.checkout,
    )
    return Proof(
        settings=place.settings,
        recent_files=frozenset(plan.recent_files if plan.recent_files_enforced else ()),
        ci_config=place.job.ci_config_path,
        env={**env, "PATH": boundary.search_path(env["PATH"])},
        logs=place.logs,
        limits=lambda: Limits(timeout_s=ledger.left_s(), output_bytes=place.settings.max_output),
        emit=place.emit,
        confined=boundary.around(place.checkout, home),
    )


def _bench(
    place: WorkPlace,
    tools: Tools,
    ledger: Ledger,
    recorder: Recorder,
    access: ModelAccess,
    boundary: Boundary,
) -> Bench:
    return Bench(
        settings=place.settings,
        provider=tools.provider,
        templates=tools.templates,
        allowed_commands=place.allowed_commands,
        env=place.env,
        checkout=place.checkout,
        private=place.private,
        logs=place.logs,
        ledger=ledger,
        access=access,
        boundary=boundary,
        emit=place.emit,
        keep=recorder.keep,
    )


def _recorder(place: WorkPlace, tools: Tools) -> Recorder:
    folder = place.settings.record_dir
    return Recorder(Path(folder) if folder else None, tools.provider.name, place.redact)


def _failed(plan: Plan, code: Code, reason: str) -> Ending:
    return Ending(Outcome.FAILED, reason, plan.scheduled or "none", error_code=code.value)


def _bundle(plan: Plan, ending: Ending, ledger: Ledger, duration_s: float) -> Bundle:
    return Bundle(
        run_id=plan.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_sha=plan.base_sha,
        target_branch=plan.target_branch,
        outcome=ending.outcome,
        reason=ending.reason,
        error_code=ending.error_code,
        summary=ending.summary,
        category_used=ending.category_used,
        is_fallback=ending.is_fallback,
        files_scanned=ending.files_scanned,
        proposal=ending.proposal,
        usage=ledger.usage(),
        duration_s=round(duration_s, 1),
        isolation=ledger.isolation,
        beads=tuple(ledger.results),
    )


def _told(bundle: Bundle, redact: Redactor) -> Bundle:
    """The bundle without the values of secrets in what agents and commands said."""
    proposal = bundle.proposal
    if proposal:
        said = ("analysis", "draft", "verdict", "notes")
        told = {name: map_texts(getattr(proposal, name), redact) for name in said}
        proposal = dataclasses.replace(proposal, **told)
    return dataclasses.replace(
        bundle,
        reason=redact(bundle.reason),
        summary=redact(bundle.summary),
        proposal=proposal,
        beads=map_texts(bundle.beads, redact),
    )
