"""``nightshift doctor --boundary``: would a night start here, and what would confine its agent?

The work stage itself opens its sandbox with this job's settings and proves it, but starts no agent.
So the tier is the one that a night would get, and every printed result was tried.
"""

import contextlib
import dataclasses
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gitlab_nightshift.agents import build_provider
from gitlab_nightshift.commands.risky_variables import Risk, find_risks
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gateway.gateway_start import open_gateway
from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.records.events import BoundaryChosen, BoundaryProven, Event, Note
from gitlab_nightshift.records.products import Outcome, Plan
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, ProbeSummary, Strength
from gitlab_nightshift.repository import prepared_checkout
from gitlab_nightshift.repository.git import read_head
from gitlab_nightshift.run.process_inputs import build_work_context
from gitlab_nightshift.run.session_opening import open_run
from gitlab_nightshift.run.supervisor.work_paths import find_confinement_paths
from gitlab_nightshift.run_folder import Invocation, RunFolder
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox.confinement import ConfinementChoice, ConfinementMode
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS
from gitlab_nightshift.sandbox.process_table import WORK_TRIAL
from gitlab_nightshift.sandbox.proof import ProbeFinding, refuse_weaker, summarize_findings
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.sandbox.tier_choice import AUTO
from gitlab_nightshift.sandbox.tiers import CONFINED, OWN_CODE, Tier
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.model import Promise
from gitlab_nightshift.stages.report.job_log import format_line
from gitlab_nightshift.stages.work.baseline import Baseline
from gitlab_nightshift.stages.work.gateway_access import configure_gateway
from gitlab_nightshift.stages.work.night_ending import Ending
from gitlab_nightshift.stages.work.run_budget import open_ledger
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.stages.work.work_stage import run_workflow
from gitlab_nightshift.stages.work.workflows import AgentSetup, Workflow, prepare_agent
from gitlab_nightshift.system.environment import build_search_path

NO_WORK = Workflow(
    baseline=lambda _place, _checkout, _runner: Baseline(),
    run=lambda _night: Ending(Outcome.NO_IMPROVEMENT, "", "none"),
)
"""Does nothing between the proof of the sandbox and its end."""
EVERY_PROMISE = list(typing.get_args(Promise))


@dataclass(frozen=True)
class _ConfinementTrial:
    """The confinement chosen, and the result of its proof."""

    chosen: ConfinementChoice
    row: ProbeSummary


@dataclass
class Examination:
    """The result of trying the sandbox. ``chosen`` and ``proven`` are the run's events, None if it
    did not get that far. In the folders ``planted``, the proof has put code that this program must
    not load; ``refused`` are the reasons for which a night would not start, in order."""

    chosen: BoundaryChosen | None = None
    proven: BoundaryProven | None = None
    notes: list[Note] = field(default_factory=list)
    planted: tuple[str, ...] = ()
    risks: tuple[Risk, ...] | None = None
    refused: list[NightshiftError] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 only if a night would start, else the status that it would end with."""
        return self.refused[0].exit_status if self.refused else 0

    @property
    def guarantees(self) -> tuple[Strength, ...]:
        """The guarantees after the proof; before it, those that the sandbox promises."""
        boundary = self.proven or self.chosen
        return boundary.guarantees if boundary else ()

    def __call__(self, event: Event) -> None:
        """Collect the run's events."""
        if isinstance(event, BoundaryChosen):
            self.chosen = event
        elif isinstance(event, BoundaryProven):
            self.proven = event
        elif isinstance(event, Note):
            self.notes.append(event)


def examine(call: Invocation) -> Examination:
    """Open the sandbox of a night and examine it. Only bugs of this program raise."""
    examined = Examination()
    try:
        with open_run(call) as session:
            _examine_session(dataclasses.replace(session, emit=examined), examined)
    except NightshiftError as error:
        examined.refused.append(error)
    return examined


def _examine_session(session: Session, examined: Examination) -> None:
    settings = session.settings
    needed = ("GITLAB_TOKEN", *MODEL_KEYS)
    examined.risks = find_risks(session.env, session.checkout, needed, settings.agent_env)
    work_context = _build_examination_context(session)
    top = session.checkout.resolve()
    folders = (str(path.resolve().relative_to(top)) for path in work_context.named_folders)
    examined.planted = tuple(dict.fromkeys(folders))
    tools = _prepare_tools(work_context, examined)
    base = read_head(session.git, session.checkout)
    today = datetime.now(UTC).date().isoformat()
    limits = session.settings.max_diff_lines, session.settings.max_budget_usd
    plan = Plan(session.job.run_id, today, base, "", "", (), *limits)
    ledger = open_ledger(plan, None)
    config = configure_gateway(
        work_context.settings, tools.provider, work_context.model_env, plan.limit
    )
    with open_gateway(config, work_context.model_env, work_context.emit) as gateway:
        run_workflow(plan, work_context, tools, ledger, NO_WORK, gateway)
    if examined.chosen:
        _prove_reader(session, examined, examined.chosen)
        refuse_weaker(
            Tier(examined.chosen.tier), examined.chosen.guarantees, settings.accept_partial
        )


def _prove_reader(session: Session, examined: Examination, chosen: BoundaryChosen) -> None:
    """Prove the confinement of the process that reads agents' output: a night has one, this command
    starts it only for this proof."""
    if chosen.tier == Tier.NONE:
        return
    # Tiers are tried from the strongest, namespaces, on.
    namespace_failure = next((why for _, why in chosen.passed_over), "")
    if (tried := _try_confinement(session, namespace_failure)) is None:
        return
    if tried.row.state is GuaranteeState.BROKEN or tried.chosen.mode is ConfinementMode.NONE:
        weaker = Strength("secrets", tried.row.state, f"{CONFINED.title}: {tried.row.how}")
        strengths = tuple(
            weaker if each.name == "secrets" else each for each in examined.guarantees
        )
        examined.chosen = chosen = dataclasses.replace(chosen, guarantees=strengths)
    if examined.proven:
        examined.proven = BoundaryProven(chosen.guarantees, (*examined.proven.rows, tried.row))


def _build_examination_context(session: Session) -> WorkContext:
    """The night's context, but it continues with partial guarantees and records nothing."""
    work_context = build_work_context(session)
    looking = work_context.settings.with_values(accept_partial=EVERY_PROMISE, record_dir=None)
    return dataclasses.replace(work_context, settings=looking)


def _prepare_tools(work_context: WorkContext, examined: Examination) -> AgentSetup:
    """The night's tools. An unusable agent is a reason against a night, but the boundary can be
    examined without one."""
    try:
        return prepare_agent(work_context)
    except NightshiftError as error:
        examined.refused.append(error)
        return AgentSetup(build_provider(work_context.settings), {})


def _try_confinement(session: Session, namespace_failure: str) -> _ConfinementTrial | None:
    """Start a confined process that tries to break out; None if confinement is disabled.

    Unlike in a night, the checkout's own ``.git`` is in place, so nothing may be written there.
    ``namespace_failure`` is why agents get no namespaces, "" if they do. Raises NightshiftError.
    """
    run_folder = RunFolder(session.checkout, session.private)
    with (
        prepared_checkout.prepare_folders(run_folder.checkout, run_folder.private) as prepared,
        find_confinement_paths(session.env, run_folder, prepared.writable) as places,
    ):
        env = {"PATH": build_search_path(session.env, session.checkout)}
        for _ in range(MOST_STARTS):
            chosen = confinement.choose(
                session.settings.isolation, places, namespace_failure=namespace_failure
            )
            if chosen.disabled:
                return None
            with contextlib.closing(StageProcess(WORK_TRIAL, env, prefix=chosen.prefix)) as process:
                process.send_task({"confined": chosen.describe(places)})
                attempts = process.read_answer().get("found", [])
            # A path to be hidden may vanish between the choice and the start, which then fails.
            if attempts or not chosen.has_lost_hidden_path():
                break
    if not attempts:
        why = "the process that tries it did not start"
        return _ConfinementTrial(
            chosen, ProbeSummary(CONFINED.title, 0, GuaranteeState.BROKEN, why)
        )
    row = summarize_findings(CONFINED, [ProbeFinding(CONFINED, *each) for each in attempts])
    if chosen.mode is ConfinementMode.NONE:
        row = ProbeSummary(
            row.title, row.attempts, GuaranteeState.PARTIAL, f"not confined: {chosen.reason}"
        )
    return _ConfinementTrial(chosen, row)


MOST_NAMES = 5
"""Names of a kind of risky variables that are shown without ``--verbose``."""
WIDTH = 1000
"""Characters of a line."""
_MARKS = {
    GuaranteeState.HELD: "held:",
    GuaranteeState.PARTIAL: "partly:",
    GuaranteeState.BROKEN: "OPEN:",
}
# ANSI (ECMA-48, SGR): green, yellow, red.
_COLOURS = {GuaranteeState.HELD: "32", GuaranteeState.PARTIAL: "33", GuaranteeState.BROKEN: "31"}
_Line = tuple[GuaranteeState | None, str]
"""A line, and the state that its colour shows."""


def format_examination(examined: Examination, *, verbose: bool, colour: bool) -> str:
    """The lines for a person; ``verbose`` adds the evidence of each row, and all names."""
    rows = [
        *(_format_boundary(examined) if examined.chosen else ()),
        *((GuaranteeState.PARTIAL, note.text) for note in examined.notes if note.warning),
        *(_format_evidence(examined) if verbose else ()),
        *(() if examined.risks is None else ((None, _describe_risks(examined.risks, verbose)),)),
        (_compute_state(examined), describe_verdict(examined)),
    ]
    lines = ((state, format_line(text, WIDTH)) for state, text in rows)
    return "\n".join(_paint(state, text) if colour else text for state, text in lines)


def _paint(state: GuaranteeState | None, text: str) -> str:
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m" if state else text


def _format_row(title: str, state: GuaranteeState, text: str) -> _Line:
    return state, f"{title:<24} {_MARKS[state]:<8}{text}"


def _format_boundary(examined: Examination) -> Iterator[_Line]:
    assert examined.chosen is not None
    yield None, _describe_selection(examined.chosen)
    yield None, _describe_needs(examined.chosen)
    if examined.chosen.tier == Tier.NONE:
        return
    for each in examined.guarantees:
        yield _format_row(each.name, each.state, each.reason)
    yield from _format_own_code(examined)
    for row in examined.proven.rows if examined.proven else ():
        if row.title == CONFINED.title:
            yield _format_row(row.title, row.state, row.how)


def _describe_selection(chosen: BoundaryChosen) -> str:
    passed_over = "".join(f"; {tier} does not work here: {why}" for tier, why in chosen.passed_over)
    how = "the strongest that works here" if chosen.isolation == AUTO else "as isolation asks"
    return f"The sandbox is {chosen.tier}, {how}{passed_over}"


def _describe_needs(chosen: BoundaryChosen) -> str:
    places, tools, hosts = map(", ".join, (chosen.places, chosen.tools, chosen.hosts))
    return (
        f"It is for {chosen.agent}, which reads {places or 'no folders of its own'}; agent_paths:"
        f" {tools or 'none'}; open hosts: {hosts or 'none but the model'}"
    )


def _format_own_code(examined: Examination) -> Iterator[_Line]:
    rows = (
        [row for row in examined.proven.rows if row.title == OWN_CODE.title]
        if examined.proven
        else []
    )
    for row in rows:
        if row.state is GuaranteeState.HELD:
            places = " and ".join("the checkout" if p == "." else p for p in examined.planted)
            text = f"{row.attempts} attempts, nothing planted in {places} was loaded"
        else:
            text = row.how
        yield _format_row(row.title, row.state, text)


def _format_evidence(examined: Examination) -> Iterator[_Line]:
    """The evidence of each row, and the notes that a night starts with."""
    for row in examined.proven.rows if examined.proven else ():
        yield row.state, f"{row.title:<33}{_MARKS[row.state]:<8}{row.attempts} tried: {row.how}"
    yield from ((None, note.text) for note in examined.notes if not note.warning)


def _describe_risks(risks: Iterable[Risk], verbose: bool) -> str:
    parts = [_describe_risk(risk, verbose) for risk in risks]
    return f"Risky variables of this job: {'; '.join(parts) or 'none'}"


def _describe_risk(risk: Risk, verbose: bool) -> str:
    shown = risk.names if verbose else risk.names[:MOST_NAMES]
    more = f" and {len(risk.names) - len(shown)} more" if len(shown) < len(risk.names) else ""
    given = f"; agent_env gives {', '.join(risk.given)} to agents" if risk.given else ""
    return f"{', '.join(shown)}{more} ({risk.what}{given})"


def _compute_state(examined: Examination) -> GuaranteeState:
    if examined.refused:
        return GuaranteeState.BROKEN
    return (
        GuaranteeState.PARTIAL
        if examined.chosen and examined.chosen.tier == Tier.NONE
        else GuaranteeState.HELD
    )


def describe_verdict(examined: Examination) -> str:
    """A sentence: would a night start here?"""
    if examined.refused:
        reasons = (error.message.replace("\n", "; ") for error in examined.refused)
        return f"No night would start here: {'; also: '.join(reasons)}"
    if examined.chosen and examined.chosen.tier == Tier.NONE:
        return (
            "A night would start here without a sandbox (isolation: none): its agent can read every"
            " secret of this job."
        )
    partly = [each.name for each in examined.guarantees if each.state is GuaranteeState.PARTIAL]
    if partly:
        names = " and ".join(partly)
        return f"A night would start here with {names} only partly held, as accept_partial allows."
    hosts = examined.chosen.hosts if examined.chosen else ()
    but = f" but for {', '.join(hosts)}, which policy.egress_hosts opens" if hosts else ""
    return (
        f"A night here is sealed{but}: files, secrets, network and lifetime are held, and this"
        " program loads nothing that an agent writes."
    )
