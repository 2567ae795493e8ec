"""The categories that a bundle names: those of the plan, never free text. Later jobs read one of
them from ``NIGHT_CATEGORY``, and people in titles."""

from collections.abc import Collection

from gitlab_nightshift.records.products import Bundle
from gitlab_nightshift.registry.categories import TASK

NONE = "none"
_FALLBACK = " (fallback from "


def format_category(category: str, scheduled: str) -> str:
    """How a category is written in results: with where it was the fallback from."""
    return category if category == scheduled else f"{category}{_FALLBACK}{scheduled})"


def find_unknown_category(bundle: Bundle, names: Collection[str], days: Collection[str]) -> str:
    """The field with a category that is none of ``names``, "" where there is none. ``days`` are
    those that may have been the day's."""
    said = {*names, *days, NONE, ""} | {
        format_category(name, day) for name in names for day in days
    }
    fallback = _FALLBACK in bundle.category_used
    if bundle.category_used not in said or bundle.is_fallback is not fallback:
        return "category_used"
    proposal = bundle.proposal
    used = bundle.category_used.partition(_FALLBACK)[0]
    if proposal and (proposal.category not in names or proposal.category != used):
        return "proposal.category"
    if proposal and proposal.is_fallback is not fallback:
        return "proposal.is_fallback"
    known = {*names, TASK}  # what was done for an open merge request before counts, too
    if any(bead.category not in known for bead in bundle.beads):
        return "beads"
    return "failed_attempts" if any(e.category not in known for e in bundle.failed_attempts) else ""
