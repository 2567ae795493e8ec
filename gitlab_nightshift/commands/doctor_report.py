"""The output of ``nightshift doctor --boundary``: about ten lines, the verdict last."""

from collections.abc import Iterable, Iterator

from gitlab_nightshift.commands.examination import Examination
from gitlab_nightshift.commands.risky_variables import Risk
from gitlab_nightshift.records.events import BoundaryChosen
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState
from gitlab_nightshift.sandbox.tier_choice import AUTO
from gitlab_nightshift.sandbox.tiers import CONFINED, OWN_CODE, Tier
from gitlab_nightshift.stages.report.job_log import format_line

MOST_NAMES = 5
WIDTH = 1000
_MARKS = {
    GuaranteeState.HELD: "held:",
    GuaranteeState.PARTIAL: "partly:",
    GuaranteeState.BROKEN: "OPEN:",
}
_COLOURS = {GuaranteeState.HELD: "32", GuaranteeState.PARTIAL: "33", GuaranteeState.BROKEN: "31"}
_Line = tuple[GuaranteeState | None, str]
"""A line, and the state that its colour shows."""


def format_examination(found: Examination, *, verbose: bool, colour: bool) -> str:
    """The lines for a person; ``verbose`` adds the evidence of each row, and all names."""
    rows = [
        *(_format_boundary(found) if found.chosen else ()),
        *((GuaranteeState.PARTIAL, note.text) for note in found.notes if note.warning),
        *(_format_evidence(found) if verbose else ()),
        *(() if found.risks is None else ((None, _describe_risks(found.risks, verbose)),)),
        (_compute_state(found), describe_verdict(found)),
    ]
    lines = ((state, format_line(text, WIDTH)) for state, text in rows)
    return "\n".join(_paint(state, text) if colour else text for state, text in lines)


def _paint(state: GuaranteeState | None, text: str) -> str:
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m" if state else text


def _format_row(title: str, state: GuaranteeState, text: str) -> _Line:
    return state, f"{title:<24} {_MARKS[state]:<8}{text}"


def _format_boundary(found: Examination) -> Iterator[_Line]:
    assert found.chosen is not None
    yield None, _describe_selection(found.chosen)
    yield None, _describe_needs(found.chosen)
    if found.chosen.tier == Tier.NONE:
        return
    for each in found.guarantees:
        yield _format_row(each.name, each.state, each.reason)
    yield from _format_own_code(found)
    for row in found.proven.rows if found.proven else ():
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


def _format_own_code(found: Examination) -> Iterator[_Line]:
    rows = [row for row in found.proven.rows if row.title == OWN_CODE.title] if found.proven else []
    for row in rows:
        if row.state is GuaranteeState.HELD:
            places = " and ".join("the checkout" if p == "." else p for p in found.planted)
            text = f"{row.attempts} attempts, nothing planted in {places} was loaded"
        else:
            text = row.how
        yield _format_row(row.title, row.state, text)


def _format_evidence(found: Examination) -> Iterator[_Line]:
    """The evidence of each row, and the notes that a night starts with."""
    for row in found.proven.rows if found.proven else ():
        yield row.state, f"{row.title:<33}{_MARKS[row.state]:<8}{row.attempts} tried: {row.how}"
    yield from ((None, note.text) for note in found.notes if not note.warning)


def _describe_risks(risks: Iterable[Risk], verbose: bool) -> str:
    parts = [_describe_risk(risk, verbose) for risk in risks]
    return f"Risky variables of this job: {'; '.join(parts) or 'none'}"


def _describe_risk(risk: Risk, verbose: bool) -> str:
    shown = risk.names if verbose else risk.names[:MOST_NAMES]
    more = f" and {len(risk.names) - len(shown)} more" if len(shown) < len(risk.names) else ""
    given = f"; agent_env gives {', '.join(risk.given)} to agents" if risk.given else ""
    return f"{', '.join(shown)}{more} ({risk.what}{given})"


def _compute_state(found: Examination) -> GuaranteeState:
    if found.refused:
        return GuaranteeState.BROKEN
    return (
        GuaranteeState.PARTIAL
        if found.chosen and found.chosen.tier == Tier.NONE
        else GuaranteeState.HELD
    )


def describe_verdict(found: Examination) -> str:
    """One sentence: would a night start here?"""
    if found.refused:
        reasons = (error.message.replace("\n", "; ") for error in found.refused)
        return f"No night would start here: {'; also: '.join(reasons)}"
    if found.chosen and found.chosen.tier == Tier.NONE:
        return (
            "A night would start here without a sandbox (isolation: none): its agent can read every"
            " secret of this job."
        )
    partly = [each.name for each in found.guarantees if each.state is GuaranteeState.PARTIAL]
    if partly:
        names = " and ".join(partly)
        return f"A night would start here with {names} only partly held, as accept_partial allows."
    hosts = found.chosen.hosts if found.chosen else ()
    but = f" but for {', '.join(hosts)}, which policy.egress_hosts opens" if hosts else ""
    return (
        f"A night here is sealed{but}: files, secrets, network and lifetime are held, and this"
        " program loads nothing that an agent writes."
    )
