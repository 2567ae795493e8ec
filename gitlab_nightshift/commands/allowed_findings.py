"""``nightshift: allow FLAG because REASON``: what the authors of a change say to its findings.

A line in a commit's message or a merge request's description. It is shown beside the finding. It
turns a ``fail`` into a ``warn`` only in a description, of which GitLab confirms that a person with
the role Developer or higher answers for it: who wrote a commit nobody confirms.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.records.verdicts import Finding
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import make_printable

_LINE = compile_lazily(
    r"^[ \t>*-]*nightshift: allow ([a-z][a-z-]{2,40}) because[ \t]+(\S[^\r\n]*)$", re.MULTILINE
)
_LONGEST_TEXT, _LONGEST_REASON = 100_000, 200
_DELEGATED = "nightshift/"


@dataclass(frozen=True)
class Allowance:
    """One such line. ``place`` says where it stands; ``confirmed`` is true where it counts."""

    flag: str
    reason: str
    place: str
    confirmed: bool = False


def read_allowances(text: str, place: str, confirmed: bool = False) -> Iterator[Allowance]:
    """The lines of one text, with reasons fit to be shown."""
    for flag, reason in _LINE.findall(text[:_LONGEST_TEXT]):
        shown = make_printable(reason.strip())[:_LONGEST_REASON]
        yield Allowance(flag, shown, place, confirmed)


def is_of_night(branch: str, settings: Settings) -> bool:
    """True for a branch that a night or a delegation made: nobody allows anything there."""
    return branch.startswith((settings.branch_prefix, _DELEGATED))


def read_description(env: Mapping[str, str], settings: Settings) -> Iterator[Allowance]:
    """The lines in the description of the pipeline's merge request.

    GitLab is asked only where there is such a line and a token: a description is edited by its
    author and by Developers, so a line counts where the author is one and no bot. Without an
    answer it is shown and does not count.
    """
    branch = env.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "")
    said = env.get("CI_MERGE_REQUEST_DESCRIPTION", "")
    if is_of_night(branch, settings) or not _LINE.search(said[:_LONGEST_TEXT]):
        return
    place = "the merge request's description"
    from gitlab_nightshift.job.job_secrets import read_secrets

    token = read_secrets(env).gitlab_token
    confirmed = _read_confirmed(env, token, settings) if token else ""
    yield from read_allowances(confirmed or said, place, bool(confirmed))


def _read_confirmed(env: Mapping[str, str], token: str, settings: Settings) -> str:
    """The description as GitLab has it now, "" where no Developer's."""
    from gitlab_nightshift.gitlab.access import DEVELOPER
    from gitlab_nightshift.gitlab.project import open_project
    from gitlab_nightshift.job.job_facts import read_job
    from gitlab_nightshift.records.request import CommentAddress

    job, number = read_job(env, settings.repo_url), env.get("CI_MERGE_REQUEST_IID", "")
    if not re.fullmatch(r"[0-9]{1,18}", number):
        return ""
    try:
        threads = open_project(job.server_url, job.project_id, token, patience_s=30.0).threads
        found = threads.find_noteable(CommentAddress("merge_requests", int(number), 0))
        if found is None or is_of_night(found.source_branch, settings):
            return ""
        known = threads.read_level(found.author_id) >= DEVELOPER
        return found.description if known and not threads.is_bot(found.author_id) else ""
    except NightshiftError:
        return ""


def apply_allowances(
    findings: Sequence[Finding], allowances: Sequence[Allowance]
) -> Iterator[Finding]:
    """The findings, each with the reason that is given for its flag."""
    for finding in findings:
        mine = [each for each in allowances if each.flag == finding.name]
        best = next((each for each in mine if each.confirmed), mine[0] if mine else None)
        yield _apply_allowance(finding, best) if best else finding


def _apply_allowance(finding: Finding, allowance: Allowance) -> Finding:
    by = "" if allowance.confirmed else ", not confirmed"
    said = f"{finding.detail} Allowed because {allowance.reason} ({allowance.place}{by})"
    lowered = allowance.confirmed and finding.level == "fail"
    return replace(finding, level="warn" if lowered else finding.level, detail=said)
