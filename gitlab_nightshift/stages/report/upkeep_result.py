"""What was done for an open merge request before new work: a bundle of its own, with what became
of it."""

from pathlib import Path

from gitlab_nightshift.records.products import Bundle, Publication
from gitlab_nightshift.records.run_results import UpkeepResult
from gitlab_nightshift.records.storage import UPKEEP, read_kept


def build_upkeep_result(bundle: Bundle, published: Publication | None) -> UpkeepResult:
    """Bundle and publication as the result of the night has them."""
    last: Bundle | Publication = published or bundle
    return UpkeepResult(
        outcome=last.outcome,
        error_code=last.error_code,
        reason=last.reason,
        mr_url=published.mr_url if published else "",
        commit_sha=published.commit_sha if published else "",
        duration_s=bundle.duration_s,
    )


def read_upkeep_result(results: Path) -> UpkeepResult | None:
    """What this run has done before new work; None where there was nothing to do."""
    bundle = read_kept(Bundle, results / UPKEEP / "bundle/bundle.json")
    published = read_kept(Publication, results / UPKEEP / "published.json")
    return build_upkeep_result(bundle, published) if bundle else None
