"""``nightshift doctor --boundary``: would a night start here, and what would confine its agent?

The work stage opens its sandbox with this job's settings and proves it, but starts no agent. So the
tier is the one that a night would get, and every printed result was tried.
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
from gitlab_nightshift.sandbox.tiers import OWN_CODE, WORK_READERS, Tier
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
    run_baseline=lambda _place, _checkout, _runner: Baseline(),
    run=lambda _night: Ending(Outcome.NO_IMPROVEMENT, "", "none"),
)
"""Does nothing between the proof of the sandbox and its end."""
EVERY_PROMISE = list(typing.get_args(Promise))


@dataclass(frozen=True)
class _ConfinementTrial:
    """The confinement chosen, and the result of its proof."""

    chosen: ConfinementChoice
    summary: ProbeSummary


@dataclass
class Examination:
    """The result of trying the sandbox. ``chosen`` and ``proven`` are the run's events, None if it
    did not get that far. ``planted_folders`` have code of the proof that this program must not
    load; ``refusals`` are the errors that would end a night, in order."""

    chosen: BoundaryChosen | None = None
    proven: BoundaryProven | None = None
    notes: list[Note] = field(default_factory=list)
    planted_folders: tuple[str, ...] = ()
    risks: tuple[Risk, ...] | None = None
    refusals: list[NightshiftError] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 only if a night would start, else the status that it would end with."""
        return self.refusals[0].exit_status if self.refusals else 0

    @property
    def probe_summaries(self) -> tuple[ProbeSummary, ...]:
        """What the proof found, empty without one."""
        return self.proven.rows if self.proven else ()

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
    examination = Examination()
    try:
        with open_run(call) as session:
            _examine_session(dataclasses.replace(session, emit=examination), examination)
    except NightshiftError as error:
        examination.refusals.append(error)
    return examination


def _examine_session(session: Session, examination: Examination) -> None:
    settings = session.settings
    expected = ("GITLAB_TOKEN", *MODEL_KEYS)
    examination.risks = find_risks(session.env, session.checkout, expected, settings.agent_env)
    work_context = _build_examination_context(session)
    top = session.checkout.resolve()
    folders = (str(path.resolve().relative_to(top)) for path in work_context.named_folders)
    examination.planted_folders = tuple(dict.fromkeys(folders))
    agent_setup = _prepare_agent(work_context, examination)
    plan = Plan(
        run_id=session.job.run_id,
        date=datetime.now(UTC).date().isoformat(),
        base_sha=read_head(session.git, session.checkout),
        target_branch="",
        scheduled="",
        categories=(),
        max_diff_lines=settings.max_diff_lines,
        max_budget_usd=settings.max_budget_usd,
    )
    ledger = open_ledger(plan, None)
    config = configure_gateway(
        work_context.settings, agent_setup.provider, work_context.model_env, plan.limit
    )
    with open_gateway(config, work_context.model_env, work_context.emit) as gateway:
        run_workflow(plan, work_context, agent_setup, ledger, NO_WORK, gateway)
    if examination.chosen:
        _prove_work_confinement(session, examination, examination.chosen)
        refuse_weaker(
            Tier(examination.chosen.tier), examination.chosen.guarantees, settings.accept_partial
        )


def _prove_work_confinement(
    session: Session, examination: Examination, chosen: BoundaryChosen
) -> None:
    """Prove the confinement of a night's work process, which reads agents' output. This command
    starts one only for the proof."""
    if chosen.tier == Tier.NONE:
        return
    # Namespaces, the strongest tier, are tried first.
    namespace_failure = next((why for _, why in chosen.passed_over), "")
    trial = _try_confinement(session, namespace_failure)
    if trial is None:
        return
    summary = trial.summary
    if summary.state is GuaranteeState.BROKEN or trial.chosen.mode is ConfinementMode.NONE:
        secrets = Strength("secrets", summary.state, f"{WORK_READERS.title}: {summary.how}")
        guarantees = tuple(
            secrets if each.name == "secrets" else each for each in examination.guarantees
        )
        examination.chosen = chosen = dataclasses.replace(chosen, guarantees=guarantees)
    if examination.proven:
        rows = (*examination.proven.rows, summary)
        examination.proven = BoundaryProven(chosen.guarantees, rows)


def _build_examination_context(session: Session) -> WorkContext:
    """The night's context, except that it accepts partial guarantees and records nothing."""
    work_context = build_work_context(session)
    settings = work_context.settings.with_values(accept_partial=EVERY_PROMISE, record_dir=None)
    return dataclasses.replace(work_context, settings=settings)


def _prepare_agent(work_context: WorkContext, examination: Examination) -> AgentSetup:
    """The night's agent. An unusable one would end a night, but the boundary can be examined
    without it."""
    try:
        return prepare_agent(work_context)
    except NightshiftError as error:
        examination.refusals.append(error)
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
            chosen, ProbeSummary(WORK_READERS.title, 0, GuaranteeState.BROKEN, why)
        )
    findings = [ProbeFinding(WORK_READERS, *each) for each in attempts]
    summary = summarize_findings(WORK_READERS, findings)
    if chosen.mode is ConfinementMode.NONE:
        summary = dataclasses.replace(
            summary, state=GuaranteeState.PARTIAL, how=f"not confined: {chosen.reason}"
        )
    return _ConfinementTrial(chosen, summary)


MOST_NAMES = 5
"""Risky variables of one kind that are named without ``--verbose``."""
LONGEST_LINE = 1000
_MARKS = {
    GuaranteeState.HELD: "held:",
    GuaranteeState.PARTIAL: "partly:",
    GuaranteeState.BROKEN: "OPEN:",
}
# ANSI (ECMA-48, SGR): green, yellow, red.
_COLOURS = {GuaranteeState.HELD: "32", GuaranteeState.PARTIAL: "33", GuaranteeState.BROKEN: "31"}
_Line = tuple[GuaranteeState | None, str]
"""A line, and the state that its colour shows."""


def format_examination(examination: Examination, *, verbose: bool, colour: bool) -> str:
    """The lines for a person; ``verbose`` adds the evidence of each row, and all names."""
    lines = []
    for state, text in _list_lines(examination, verbose):
        line = format_line(text, LONGEST_LINE)
        lines.append(f"\x1b[{_COLOURS[state]}m{line}\x1b[0m" if colour and state else line)
    return "\n".join(lines)


def _list_lines(examination: Examination, verbose: bool) -> Iterator[_Line]:
    if examination.chosen:
        yield from _format_boundary(examination, examination.chosen)
    yield from ((GuaranteeState.PARTIAL, note.text) for note in examination.notes if note.warning)
    if verbose:
        yield from _format_evidence(examination)
    if examination.risks is not None:
        yield None, _describe_risks(examination.risks, verbose)
    yield _find_verdict_state(examination), describe_verdict(examination)


def _format_row(title: str, state: GuaranteeState, text: str) -> _Line:
    return state, f"{title:<24} {_MARKS[state]:<8}{text}"


def _format_boundary(examination: Examination, chosen: BoundaryChosen) -> Iterator[_Line]:
    yield None, _describe_selection(chosen)
    yield None, _describe_needs(chosen)
    if chosen.tier == Tier.NONE:
        return
    for each in examination.guarantees:
        yield _format_row(each.name, each.state, each.reason)
    for summary in examination.probe_summaries:
        if summary.title == OWN_CODE.title:
            yield _format_own_code(summary, examination.planted_folders)
    for summary in examination.probe_summaries:
        if summary.title == WORK_READERS.title:
            yield _format_row(summary.title, summary.state, summary.how)


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


def _format_own_code(summary: ProbeSummary, planted_folders: Iterable[str]) -> _Line:
    text = summary.how
    if summary.state is GuaranteeState.HELD:
        folders = " and ".join("the checkout" if each == "." else each for each in planted_folders)
        text = f"{summary.attempts} attempts, nothing planted in {folders} was loaded"
    return _format_row(summary.title, summary.state, text)


def _format_evidence(examination: Examination) -> Iterator[_Line]:
    """The evidence of each row, and the notes that a night starts with."""
    for each in examination.probe_summaries:
        text = f"{each.title:<33}{_MARKS[each.state]:<8}{each.attempts} tried: {each.how}"
        yield each.state, text
    yield from ((None, note.text) for note in examination.notes if not note.warning)


def _describe_risks(risks: Iterable[Risk], verbose: bool) -> str:
    texts = [_describe_risk(risk, verbose) for risk in risks]
    return f"Risky variables of this job: {'; '.join(texts) or 'none'}"


def _describe_risk(risk: Risk, verbose: bool) -> str:
    names = risk.names if verbose else risk.names[:MOST_NAMES]
    more = f" and {len(risk.names) - len(names)} more" if len(names) < len(risk.names) else ""
    passed_on = f"; agent_env gives {', '.join(risk.passed_on)} to agents" if risk.passed_on else ""
    return f"{', '.join(names)}{more} ({risk.kind}{passed_on})"


def _find_verdict_state(examination: Examination) -> GuaranteeState:
    if examination.refusals:
        return GuaranteeState.BROKEN
    if examination.chosen and examination.chosen.tier == Tier.NONE:
        return GuaranteeState.PARTIAL
    return GuaranteeState.HELD


def describe_verdict(examination: Examination) -> str:
    """A sentence: would a night start here?"""
    if examination.refusals:
        reasons = (error.message.replace("\n", "; ") for error in examination.refusals)
        return f"No night would start here: {'; also: '.join(reasons)}"
    if examination.chosen and examination.chosen.tier == Tier.NONE:
        return (
            "A night would start here without a sandbox (isolation: none): its agent can read every"
            " secret of this job."
        )
    partial = [each.name for each in examination.guarantees if each.state is GuaranteeState.PARTIAL]
    if partial:
        names = " and ".join(partial)
        return f"A night would start here with {names} only partly held, as accept_partial allows."
    hosts = examination.chosen.hosts if examination.chosen else ()
    exception = f" but for {', '.join(hosts)}, which policy.egress_hosts opens" if hosts else ""
    return (
        f"A night here is sealed{exception}: files, secrets, network and lifetime are held, and"
        " this program loads nothing that an agent writes."
    )
