"""The work stage: a plan goes in, a bundle comes out, whatever happens in between."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import Emit, now_s
from gitlab_nightshift.guidance import TASK
from gitlab_nightshift.host.checkout import Checkout
from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.host.logs import Logs
from gitlab_nightshift.host.pipeline import pipeline_files
from gitlab_nightshift.host.sandbox.system import Look
from gitlab_nightshift.prompts import BEADS, bead_prompt, load_bead_prompt
from gitlab_nightshift.records import Bundle, Outcome, Plan, write_record
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import Job, Settings
from gitlab_nightshift.verdict.commands import Runner
from gitlab_nightshift.work.access import ModelAccess, open_access
from gitlab_nightshift.work.agents import provider_of
from gitlab_nightshift.work.agents.base import BeadTask, Provider
from gitlab_nightshift.work.baseline import Baseline, Commands, baseline
from gitlab_nightshift.work.bead import Bench
from gitlab_nightshift.work.boundary import Boundary, proven
from gitlab_nightshift.work.bounds import check_bounds
from gitlab_nightshift.work.bundling import bundle_of, told
from gitlab_nightshift.work.context import bead_values, run_values
from gitlab_nightshift.work.ending import Ending, caught, nothing_scheduled
from gitlab_nightshift.work.fence import Place, fenced
from gitlab_nightshift.work.ledger import Ledger, open_ledger
from gitlab_nightshift.work.night import Night, run_night
from gitlab_nightshift.work.proving import Proof
from gitlab_nightshift.work.recording import Recorder
from gitlab_nightshift.work.room import Room, Site, open_room


@dataclass(frozen=True)
class WorkPlace:
    """Where and with what the work is done; no GitLab credential is in it.

    ``env`` is the part of the job's environment that agents may be given, ``model_env`` what the
    way to the model needs, the key among it; ``config_folder`` is where relative template paths
    start; ``home`` this machine's own (git settings); ``private`` a folder no part of the checkout,
    ``logs`` in it; ``seconds`` what the work may take (None: no deadline); ``secrets`` are files
    beside the checkout's own that no agent may read, ``named`` folders of the checkout that the
    job's variables name, ``look`` tells what is private on this machine.
    """

    settings: Settings
    job: Job
    env: Mapping[str, str]
    model_env: Mapping[str, str] = field(repr=False)
    checkout: Path
    config_folder: Path
    home: Path
    private: Path
    logs: Logs
    allowed_commands: tuple[str, ...]
    build_commands: tuple[str, ...]
    verify: Commands
    seconds: float | None
    redact: Redactor
    emit: Emit
    secrets: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    look: Look | None = None


@dataclass(frozen=True)
class Tools:
    """What is found out before the first model request: the provider and the templates."""

    provider: Provider
    templates: Mapping[str, str]


@dataclass(frozen=True)
class Course:
    """What is done in the room: ``first`` before there is any agent, ``then`` with them."""

    first: Callable[[WorkPlace, Checkout, Runner], Baseline]
    then: Callable[[Night], Ending]


def _baseline(place: WorkPlace, checkout: Checkout, runner: Runner) -> Baseline:
    return baseline(place.verify, place.settings.baseline, checkout, runner, place.emit)


NIGHT = Course(_baseline, run_night)


def prepare(place: WorkPlace) -> Tools:
    """Check all that can be known beforehand: templates, commands, the agent's CLI and key.

    Raises :class:`NightshiftError` (``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``).
    """
    templates = load_templates(place)
    provider = provider_of(place.settings)
    env = {**place.model_env, **place.env}
    provider.check(env)
    check_bounds(place.settings, provider, env)
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
    signal or a defect of this program is an outcome of the bundle.

    Both files are on disk before the checkout is put back for good: whatever becomes of that, the
    night's work is not lost.
    """
    started = now_s()
    ledger = open_ledger(plan, place.seconds)
    place.logs.reserve.hold()

    def write(ending: Ending) -> Bundle:
        place.logs.reserve.release()
        bundle = told(bundle_of(plan, ending, ledger, now_s() - started), place.redact)
        bundle_folder.mkdir(parents=True, exist_ok=True)
        patch = ending.captured.patch if ending.captured else b""
        (bundle_folder / "change.patch").write_bytes(patch)
        write_record(bundle_folder / "bundle.json", bundle)
        return bundle

    return write(_ending(plan, place, ledger, write))


def _ending(
    plan: Plan, place: WorkPlace, ledger: Ledger, write: Callable[[Ending], object]
) -> Ending:
    """How the night ends. ``write`` is called with that before the room is closed."""
    if plan.skip or not plan.scheduled:
        return nothing_scheduled(plan)
    disks, written = (place.private, place.checkout), list[Ending]()

    def inside(make: Callable[[], Ending]) -> Ending:
        written.append(caught(plan, place.logs, disks, make))
        write(written[0])
        return written[0]

    def whole() -> Ending:
        return in_a_room(plan, place, prepare(place), ledger, NIGHT, inside)

    ending = caught(plan, place.logs, disks, whole)
    if written and ending is not written[0]:  # stopped while the checkout was put back
        return dataclasses.replace(written[0], reason=ending.reason, error_code=ending.error_code)
    return ending


def in_a_room(
    plan: Plan,
    place: WorkPlace,
    tools: Tools,
    ledger: Ledger,
    course: Course,
    inside: Callable[[Callable[[], Ending]], Ending] = lambda make: make(),
) -> Ending:
    """Open the room, hold the course there, put all back. ``inside`` is what calls the course.

    Raises NightshiftError, Interrupted.
    """
    site = Site(
        settings=place.settings,
        env=place.env,
        model_env=place.model_env,
        checkout=place.checkout,
        home=place.home,
        private=place.private,
        logs=place.logs,
        run_id=plan.run_id,
        places=tools.provider.places(search_path(place.env, place.checkout)),
        left_s=ledger.left_s,
        emit=place.emit,
        look=place.look,
    )
    with open_room(site) as room:
        _check_base(plan, room.checkout)
        ledger.isolation = str(room.boundary)  # known from here on, however the run ends
        return inside(lambda: _behind(room, plan, place, tools, ledger, course))


def _check_base(plan: Plan, checkout: Checkout) -> None:
    if checkout.base_sha != plan.base_sha:
        text = f"the plan was made for commit {plan.base_sha[:12]}, not {checkout.base_sha[:12]}"
        raise NightshiftError(Code.CONFIG, text)


def _behind(
    room: Room, plan: Plan, place: WorkPlace, tools: Tools, ledger: Ledger, course: Course
) -> Ending:
    checkout, gateway = room.checkout, room.sockets / "gateway"
    with room.opened() as (boundary, egress, runner):
        before = course.first(place, checkout, runner)
        if before.skip and not ledger.late():
            return Ending(Outcome.SKIPPED, before.skip, plan.scheduled)
        proof = _proof(plan, place, runner, before, checkout)
        with open_access(
            place.settings, tools.provider, place.model_env, egress, gateway, place.emit
        ) as access:
            night = _night(plan, place, tools, ledger, checkout, proof, access, boundary)
            return course.then(night)


def _night(
    plan: Plan,
    place: WorkPlace,
    tools: Tools,
    ledger: Ledger,
    checkout: Checkout,
    proof: Proof,
    access: ModelAccess,
    boundary: Boundary,
) -> Night:
    boundary = dataclasses.replace(boundary, gates=(*boundary.gates, *access.gates))
    boundary = _fenced(boundary, place, tools)
    hidden = dataclasses.replace(checkout, secrets=(*checkout.secrets, *place.secrets))
    path = search_path(place.env, place.checkout)
    proven(boundary, hidden, place.private, place.home, place.named, path, place.emit)
    recorder = _recorder(place, tools)
    recorder.start(checkout.path)
    values = run_values(
        plan, place.settings, place.job, place.allowed_commands, place.build_commands
    )
    bench = _bench(place, tools, ledger, recorder, access, boundary)
    return Night(plan, place.settings, bench, checkout, proof, values, recorder)


def _fenced(boundary: Boundary, place: WorkPlace, tools: Tools) -> Boundary:
    """The boundary with what the exec gate adds to it."""
    path = search_path(place.env, place.checkout)
    asked = BeadTask(
        bead="verify",
        category=TASK,
        attempt=1,
        model=place.settings.models.verify,
        checkout=place.checkout,
        handoff_file=place.private / "handoff.json",
        schema=None,
        allowed_commands=(),
        budget_usd=1.0,
    )
    cli = Path(tools.provider.build_bead_args(asked, path)[0])
    around = Place(path, place.checkout, cli)
    return fenced(boundary, place.settings, place.allowed_commands, around, place.emit)


def _proof(
    plan: Plan, place: WorkPlace, runner: Runner, before: Baseline, checkout: Checkout
) -> Proof:
    ci_config = place.job.ci_config_path
    return Proof(
        settings=place.settings,
        recent_files=frozenset(plan.recent_files if plan.recent_files_enforced else ()),
        ci_config=ci_config,
        runner=runner,
        baseline=before,
        emit=place.emit,
        ci_files=pipeline_files(checkout.repository, checkout.base_sha, ci_config),
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
