"""How well each guarantee is kept on this machine, and what of it stops a run."""

from collections.abc import Collection, Iterable

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.host.sandbox.proof import Finding
from gitlab_nightshift.host.sandbox.records import Guarantees, Tier
from gitlab_nightshift.promises import Hold, Strength


def judge(guarantees: Guarantees, findings: Iterable[Finding] = ()) -> tuple[Strength, ...]:
    """Each guarantee by what the tier leaves open and what the proof has found (before it is held,
    nothing). Beside the four ``gateway`` and ``code``, where they are broken."""
    through: dict[str, list[str]] = {}
    for finding in findings:
        if finding.hole:
            through.setdefault(finding.row.promise, []).append(f"{finding.name} ({finding.how})")
    judged = {}
    for name, promise in vars(guarantees).items():
        state = Hold.HELD if promise.held else Hold.PARTIAL
        judged[name] = Strength(name, state, promise.text)
    for name, ways in through.items():
        judged[name] = Strength(name, Hold.BROKEN, "; ".join(ways))
    return tuple(judged.values())


def refuse_weaker(tier: Tier, strengths: Iterable[Strength], accepted: Collection[str]) -> None:
    """The one place where a weak boundary stops a run: by what is broken, or only partly held and
    not accepted. The tier ``none`` was asked for by name, and promises nothing.

    Raises NightshiftError ``E_POLICY_DENY``, in one line with what to do.
    """
    found = tuple(strengths)
    if broken := [each.reason for each in found if each.state is Hold.BROKEN]:
        raise _refusal(f"the boundary does not hold here: {'; '.join(broken)}")
    weaker = [each for each in found if each.state is Hold.PARTIAL and each.name not in accepted]
    if tier is Tier.NONE or not weaker:
        return
    what = f"{', '.join(each.name for each in weaker)} {'are' if weaker[1:] else 'is'}"
    why = "; ".join(each.reason for each in weaker)
    names = ", ".join(each.name for each in found if each.name in accepted or each in weaker)
    raise _refusal(
        f"{what} only partly held in the tier {tier} ({why}); accept it with"
        f" accept_partial: [{names}] (SECURITY.md)"
    )


def _refusal(text: str) -> NightshiftError:
    return NightshiftError(Code.POLICY_DENY, text)
