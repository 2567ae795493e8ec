"""The categories that a bundle claims. They must be those of the plan, never free text: later jobs
read one from ``NIGHT_CATEGORY``, and titles show it."""

from collections.abc import Collection

from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.registry.categories import TASK

NONE = "none"
"""The category of a night that tried none."""
_FALLBACK = " (fallback from "


def format_category(category: str, scheduled: str) -> str:
    """A category as results show it; for a fallback, with the scheduled one."""
    return category if category == scheduled else f"{category}{_FALLBACK}{scheduled})"


def find_invalid_field(bundle: Bundle, names: Collection[str], scheduled: Collection[str]) -> str:
    """The field of a bundle that has an invalid category; "" if all are valid. ``names`` are the
    categories of the plan, ``scheduled`` those that may have been scheduled."""
    valid = {*names, *scheduled, NONE, ""} | {
        format_category(name, each) for name in names for each in scheduled
    }
    fallback = _FALLBACK in bundle.category_used
    if bundle.category_used not in valid or bundle.is_fallback is not fallback:
        return "category_used"
    proposal = bundle.proposal
    used = bundle.category_used.partition(_FALLBACK)[0]
    if proposal and (proposal.category not in names or proposal.category != used):
        return "proposal.category"
    if proposal and proposal.is_fallback is not fallback:
        return "proposal.is_fallback"
    # TASK is the category of upkeep, which comes before the night's own work.
    known = {*names, TASK}
    if any(bead.category not in known for bead in bundle.beads):
        return "beads"
    return "failed_attempts" if any(e.category not in known for e in bundle.failed_attempts) else ""
