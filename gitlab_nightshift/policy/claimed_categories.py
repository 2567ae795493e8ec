"""The categories that a bundle claims. They must be those of the plan, never free text: later jobs
read the night's from ``NIGHT_CATEGORY``, and titles show it."""

from collections.abc import Collection

from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.registry.categories import TASK

NONE = "none"
"""The category of a night that tried none."""
_FALLBACK = " (fallback from "


def format_category(category: str, scheduled: str) -> str:
    """A category as results show it, with the scheduled one if it is a fallback."""
    return category if category == scheduled else f"{category}{_FALLBACK}{scheduled})"


def find_invalid_field(bundle: Bundle, planned: Collection[str], scheduled: Collection[str]) -> str:
    """The field of a bundle that has an invalid category; "" if all are valid. ``planned`` are the
    categories of the plan, ``scheduled`` those that may have been scheduled."""
    valid = {*planned, *scheduled, NONE, ""} | {
        format_category(category, each) for category in planned for each in scheduled
    }
    is_fallback = _FALLBACK in bundle.category_used
    if bundle.category_used not in valid or bundle.is_fallback is not is_fallback:
        return "category_used"
    proposal = bundle.proposal
    used = bundle.category_used.partition(_FALLBACK)[0]
    if proposal and (proposal.category not in planned or proposal.category != used):
        return "proposal.category"
    if proposal and proposal.is_fallback is not is_fallback:
        return "proposal.is_fallback"
    # Upkeep, which comes before the night's own work, has the category TASK.
    run = {*planned, TASK}
    if any(bead.category not in run for bead in bundle.beads):
        return "beads"
    if any(attempt.category not in run for attempt in bundle.failed_attempts):
        return "failed_attempts"
    return ""
