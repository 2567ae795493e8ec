"""What ``nightshift doctor --boundary`` prints: about ten lines, the last one the verdict."""

from collections.abc import Iterable, Iterator

from gitlab_nightshift.commands.examination import Examination
from gitlab_nightshift.commands.risky_variables import Risk
from gitlab_nightshift.events import BoundaryChosen
from gitlab_nightshift.report.job_log import format_line
from gitlab_nightshift.sandbox.proof_rows import CONFINED, OWN_CODE
from gitlab_nightshift.sandbox.tier_choice import AUTO
from gitlab_nightshift.sandbox.tiers import Tier
from gitlab_nightshift.sandbox_guarantees import GuaranteeState

MOST_NAMES = 5
WIDTH = 1000
_MARKS = {
    GuaranteeState.HELD: "held:",
    GuaranteeState.PARTIAL: "partly:",
    GuaranteeState.BROKEN: "OPEN:",
}
_COLOURS = {GuaranteeState.HELD: "32", GuaranteeState.PARTIAL: "33", GuaranteeState.BROKEN: "31"}
_Line = tuple[GuaranteeState | None, str]
"""A line, and the state that its colour tells."""


def format_examination(seen: Examination, *, verbose: bool, colour: bool) -> str:
    """The lines for a person; ``verbose`` adds the evidence of each row, and all names."""
    rows = [
        *(_format_boundary(seen) if seen.chosen else ()),
        *((GuaranteeState.PARTIAL, note.text) for note in seen.notes if note.warning),
        *(_format_evidence(seen) if verbose else ()),
        *(() if seen.risks is None else ((None, _describe_risks(seen.risks, verbose)),)),
        (_compute_state(seen), describe_verdict(seen)),
    ]
    lines = ((state, format_line(text, WIDTH)) for state, text in rows)
    return "\n".join(_paint(state, text) if colour else text for state, text in lines)


def _paint(state: GuaranteeState | None, text: str) -> str:
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m" if state else text


def _format_row(title: str, state: GuaranteeState, text: str) -> _Line:
    return state, f"{title:<24} {_MARKS[state]:<8}{text}"


def _format_boundary(seen: Examination) -> Iterator[_Line]:
    assert seen.chosen is not None
    yield None, _describe_selection(seen.chosen)
    yield None, _describe_needs(seen.chosen)
    if seen.chosen.tier == Tier.NONE:
        return
    for each in seen.guarantees:
        yield _format_row(each.name, each.state, each.reason)
    yield from _format_own_code(seen)
    for row in seen.proven.rows if seen.proven else ():
        if row.title == CONFINED.title:
            yield _format_row(row.title, row.state, row.how)


def _describe_selection(chosen: BoundaryChosen) -> str:
    over = "".join(f"; {tier} does not work here: {why}" for tier, why in chosen.passed_over)
    how = "the strongest that works here" if chosen.isolation == AUTO else "as isolation asks"
    return f"The sandbox is {chosen.tier}, {how}{over}"


def _describe_needs(chosen: BoundaryChosen) -> str:
    places, tools, hosts = map(", ".join, (chosen.places, chosen.tools, chosen.hosts))
    return (
        f"It is for {chosen.agent}, which reads {places or 'no folders of its own'}; agent_paths:"
        f" {tools or 'none'}; open hosts: {hosts or 'none but the model'}"
    )


def _format_own_code(seen: Examination) -> Iterator[_Line]:
    rows = [row for row in seen.proven.rows if row.title == OWN_CODE.title] if seen.proven else []
    for row in rows:
        if row.state is GuaranteeState.HELD:
            places = " and ".join("the checkout" if p == "." else p for p in seen.planted)
            text = f"{row.attempts} ways tried, nothing planted in {places} was loaded"
        else:
            text = row.how
        yield _format_row(row.title, row.state, text)


def _format_evidence(seen: Examination) -> Iterator[_Line]:
    """What was tried, row by row, and what the start of a night says."""
    for row in seen.proven.rows if seen.proven else ():
        yield row.state, f"{row.title:<33}{_MARKS[row.state]:<8}{row.attempts} tried: {row.how}"
    yield from ((None, note.text) for note in seen.notes if not note.warning)


def _describe_risks(risks: Iterable[Risk], verbose: bool) -> str:
    parts = [_describe_risk(risk, verbose) for risk in risks]
    return f"Risky variables of this job: {'; '.join(parts) or 'none'}"


def _describe_risk(risk: Risk, verbose: bool) -> str:
    shown = risk.names if verbose else risk.names[:MOST_NAMES]
    more = f" and {len(risk.names) - len(shown)} more" if len(shown) < len(risk.names) else ""
    given = f"; agent_env gives {', '.join(risk.given)} to agents" if risk.given else ""
    return f"{', '.join(shown)}{more} ({risk.what}{given})"


def _compute_state(seen: Examination) -> GuaranteeState:
    if seen.refused:
        return GuaranteeState.BROKEN
    return (
        GuaranteeState.PARTIAL
        if seen.chosen and seen.chosen.tier == Tier.NONE
        else GuaranteeState.HELD
    )


def describe_verdict(seen: Examination) -> str:
    """Would a night start here, in one sentence."""
    if seen.refused:
        reasons = (error.message.replace("\n", "; ") for error in seen.refused)
        return f"No night would start here: {'; also: '.join(reasons)}"
    if seen.chosen and seen.chosen.tier == Tier.NONE:
        return (
            "A night would start here without a sandbox, as isolation: none says: its agent can"
            " take every secret of this job."
        )
    partly = [each.name for each in seen.guarantees if each.state is GuaranteeState.PARTIAL]
    if partly:
        names = " and ".join(partly)
        return f"A night would start here with {names} only partly held, as accept_partial accepts."
    hosts = seen.chosen.hosts if seen.chosen else ()
    but = f" but for {', '.join(hosts)}, which policy.egress_hosts opens" if hosts else ""
    return (
        f"A night here is sealed{but}: files, secrets, network and lifetime are held, and this"
        " program loads nothing that an agent writes."
    )
