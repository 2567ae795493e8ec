"""How well each guarantee holds on this machine, and which failures stop a run."""

from collections.abc import Collection, Iterable

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.registry.sandbox_guarantees import GuaranteeState, Strength
from gitlab_nightshift.sandbox.proof import ProbeFinding
from gitlab_nightshift.sandbox.tiers import Guarantees, Tier


def judge(guarantees: Guarantees, findings: Iterable[ProbeFinding] = ()) -> tuple[Strength, ...]:
    """The state of each guarantee, from what the tier leaves open and what the proof has found
    (nothing before it has run). ``gateway`` and ``code`` are added if they are broken."""
    broken: dict[str, list[str]] = {}
    for finding in findings:
        if finding.hole:
            broken.setdefault(finding.row.promise, []).append(f"{finding.name} ({finding.how})")
    strengths = {}
    for name, promise in vars(guarantees).items():
        state = GuaranteeState.HELD if promise.held else GuaranteeState.PARTIAL
        strengths[name] = Strength(name, state, promise.text)
    for name, holes in broken.items():
        strengths[name] = Strength(name, GuaranteeState.BROKEN, "; ".join(holes))
    return tuple(strengths.values())


def refuse_weaker(tier: Tier, strengths: Iterable[Strength], accepted: Collection[str]) -> None:
    """Stop a run whose boundary is too weak: a guarantee is broken, or holds only partly and is not
    accepted. The tier ``none``, which was requested by name, promises nothing.

    Raises NightshiftError ``E_POLICY_DENY``, whose line says what to do.
    """
    found = tuple(strengths)
    if broken := [each.reason for each in found if each.state is GuaranteeState.BROKEN]:
        raise _build_refusal(f"the boundary does not hold here: {'; '.join(broken)}")
    weaker = [
        each for each in found if each.state is GuaranteeState.PARTIAL and each.name not in accepted
    ]
    if tier is Tier.NONE or not weaker:
        return
    what = f"{', '.join(each.name for each in weaker)} {'are' if weaker[1:] else 'is'}"
    why = "; ".join(each.reason for each in weaker)
    names = ", ".join(each.name for each in found if each.name in accepted or each in weaker)
    raise _build_refusal(
        f"{what} only partly held in the tier {tier} ({why}); accept it with"
        f" accept_partial: [{names}] (SECURITY.md)"
    )


def _build_refusal(text: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, text)
