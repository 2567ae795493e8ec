"""The onboarding merge request: its description, a pure function, and how it is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.gitlab.resources import MergeRequest, NewMergeRequest
from gitlab_nightshift.onboarding.pipeline_rules import PipelineJobs
from gitlab_nightshift.onboarding.project_files import TriedCommand
from gitlab_nightshift.stages.publish.escaping import to_markdown, to_markdown_line

BRANCH = "night-shift-onboarding"
TITLE = "Switch on the night shift"
_MESSAGE = f"{TITLE}\n\nWritten by nightshift init, from what it found and tried in this project."
_INTRO = (
    "Merging this switches the night shift on: on each scheduled night a coding agent looks for one"
    " small improvement and at most one merge request is opened, proven by the commands in"
    " `nightshift.yaml`. Nothing runs until then."
)
_UPDATE_INTRO = "Merging this moves nights to the newer version; its CHANGELOG.md says what is new."
_MANUAL_REHEARSAL = (
    "To rehearse before the first night: Build > Pipelines > New pipeline with `NIGHTSHIFT` ="
    " `true` and `NIGHTSHIFT_REHEARSE` = `true` runs everything that costs nothing."
)
LONGEST_ROW = 300


@dataclass(frozen=True)
class OnboardingFacts:
    """The facts that the description shows. ``tried`` are the test commands with their results,
    ``rows`` (name, state, text) the checks of ``doctor``. ``first_night`` says what the first night
    would look at, ``to_do`` what is left to people. ``versions`` are the include's before and after
    an update, "" if it is new. ``rehearsal`` says where to see one, "" for nowhere.
    ``can_set_variables``: people may start pipelines with variables."""

    tried: Sequence[TriedCommand]
    rows: Sequence[tuple[str, str, str]]
    first_night: str
    to_do: Sequence[str]
    versions: tuple[str, str] = ("", "")
    rehearsal: str = ""
    can_set_variables: bool = True

    @property
    def title(self) -> str:
        """The title of the merge request."""
        old, new = self.versions
        return f"Update the night shift from {old} to {new}" if old else TITLE


def render_description(facts: OnboardingFacts) -> str:
    """The description, in the order of a reader's questions."""
    sections = [
        _UPDATE_INTRO if facts.versions[0] else _INTRO,
        _render_list("Before you merge", facts.to_do),
        _render_list(
            _choose_tests_title(facts.tried),
            [f"{each.command}: {each.result}" for each in facts.tried],
        ),
        f"## Rehearsal\n\n{_format_sentence(facts.rehearsal)}" if facts.rehearsal else "",
        f"## The first night\n\n{to_markdown_line(facts.first_night, LONGEST_ROW)}",
        _render_rows(facts.rows),
        "## How to stop\n\nClose this merge request and nothing happens. Later: deactivate the"
        " schedule (Build > Pipeline schedules), or set `enabled: false` in `nightshift.yaml`.",
        _MANUAL_REHEARSAL if facts.can_set_variables else "",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def describe_rehearsal(
    jobs: PipelineJobs, name: str, merge_requests: str = "each merge request"
) -> str:
    """A sentence on how the template's input ``rehearse`` shows whether a night can start.

    ``jobs`` are those that the file ``name`` runs in a merge request's pipeline; ``merge_requests``
    says in which ones the rehearsal runs.
    """
    if jobs.excluded:
        return (
            f"the workflow rules of `{name}` keep merge request pipelines from starting, in which a"
            " job would show whether a night can start: add"
            ' `- if: $CI_PIPELINE_SOURCE == "merge_request_event"`'
        )
    condition = ""
    if jobs.excluded is None:
        condition = "if the workflow rules let merge request pipelines start, "
    note = ""
    if jobs.never and not jobs.sure and not jobs.perhaps:
        note = "; none of your own jobs runs in that pipeline"
    return (
        f"{condition}the job `nightshift:rehearse` shows, in {merge_requests} that changes"
        " `nightshift.yaml` or `.gitlab-ci.yml`, whether a night can start in your CI image"
        f"; expect a warning about the model key, which is protected and hidden from it{note}"
    )


def _format_sentence(text: str) -> str:
    return f"{to_markdown(text[0].upper() + text[1:])}."


def _render_list(title: str, lines: Sequence[str]) -> str:
    items = [f"- {to_markdown_line(line, LONGEST_ROW)}" for line in lines]
    return "\n".join([f"## {title}", "", *items]) if items else ""


def _choose_tests_title(tried: Sequence[TriedCommand]) -> str:
    if any(each.seconds is not None or each.why for each in tried):
        return "Tests, tried as a night would run them"
    return "Tests, not tried yet"


def _render_rows(rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [
        f"| {name} | {state} | {to_markdown_line(text, LONGEST_ROW).replace('|', '&#124;')} |"
        for name, state, text in rows
    ]
    head = ["## What a night needs, checked from here", "", "| | | |", "|---|---|---|"]
    return "\n".join([*head, *lines]) if lines else ""


def open_onboarding(
    project: Project,
    base_sha: str,
    files: Mapping[str, tuple[str, bool]],
    texts: tuple[str, str],
) -> MergeRequest:
    """Open the onboarding merge request, or update the open one.

    ``base_sha`` is the commit that the files change; ``files`` are name → text, and True for a new
    file; ``texts`` are the title and the description. Raises ``E_CONFIG`` if somebody has closed
    the merge request or pushed to its branch.
    """
    title, description = texts
    target = project.facts.default_branch
    _check_base(project, target, base_sha)
    opened = project.merge_requests.find_open(BRANCH)
    if opened is None and (closed := project.merge_requests.find_closed(BRANCH)):
        text = f"{closed.web_url} was closed: reopen it, or delete the branch {BRANCH}"
        raise NightshiftError(Code.CONFIG, text)
    if project.has_other_commits(target, BRANCH, TITLE):
        text = (
            f"the branch {BRANCH} has commits by someone else: merge it, or delete it and try again"
        )
        raise NightshiftError(Code.CONFIG, text)
    # First the branch: GitLab opens a merge request for an existing branch only.
    project.setup.commit_files(BRANCH, base_sha, _MESSAGE, files)
    if opened:
        project.setup.update_description(opened.iid, description)
        return opened
    head = project.find_branch_head(BRANCH) or ""
    return project.merge_requests.create(NewMergeRequest(title, description, BRANCH, target), head)


def _check_base(project: Project, target: str, base_sha: str) -> None:
    head = project.find_branch_head(target)
    if head != base_sha:
        text = (
            f"this checkout is at {base_sha[:12]}, {target} at {str(head)[:12]}: check out the"
            " newest commit first"
        )
        raise NightshiftError(Code.CONFIG, text)
