"""The fleet's dashboard: one issue of the control project, with figures and switches.

``fleet.yaml`` has the issue's number, as anybody could open an issue with the same text. A switch
is a box to tick. GitLab's system note names the user who ticked it, and only a Maintainer's tick
counts. ``fleet plan`` obeys the switches; to stop running nights, and those that projects start
themselves, there is ``fleet stop``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.gitlab.issues import Issue
from gitlab_nightshift.gitlab.project import Project
from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.publish.dashboard_page import find_tick_notes, list_ticked
from gitlab_nightshift.stages.publish.escaping import to_markdown_line, to_table_cell
from gitlab_nightshift.stages.report.history_report import HistoryFigures, RowFigures
from gitlab_nightshift.text.printable_text import count_words

START = "<!-- nightshift-fleet -->"
"""The beginning of the part of the description that this program writes."""
ALL_BOX = "start no nights"
"""The text of the box that switches all nights off."""
MOST_ROWS, LONGEST_CELL = 30, 120
MOST_PAGES = 20
"""Pages of 100 notes; each report's edit adds one note."""
_GROUP_BOX = re.compile(re.escape(ALL_BOX) + r" below ([\w./-]{1,250})")


@dataclass(frozen=True)
class Switches:
    """The nights that Maintainers switched off. ``off_by`` is the user who switched off all nights,
    "" if nobody did; ``groups`` maps a group to the user who switched it off; ``refused`` are
    ticked boxes that do not count, with the reason."""

    off_by: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def find_reason(self, path: str) -> str:
        """Why a project gets no night; "" if it is not switched off."""
        if self.off_by:
            return f"switched off on the dashboard by @{self.off_by}"
        for group, name in self.groups.items():
            if path.startswith(f"{group}/"):
                return f"its group is switched off on the dashboard by @{name}"
        return ""


NOTHING_OFF = Switches()


def read_switches(project: Project, number: int) -> Switches:
    """The switches in the control project's issue with this number. Raises ApiError, and
    ``E_CONFIG`` without such an issue: no night starts while switches cannot be read."""
    issue = _find_issue(project, number)
    ticked = list_ticked(issue.description, START)
    if not ticked:
        return NOTHING_OFF
    # The description alone proves nothing: anybody who may edit it can tick a box.
    notes = find_tick_notes(ticked, project.issues.list_system_notes(number, MOST_PAGES), 0)
    maintainers = project.people.find_maintainers(note.author_id for note in notes.values())
    off_by, groups, refused = "", dict[str, str](), list[str]()
    for text in sorted(ticked):
        note, match = notes.get(text), _GROUP_BOX.fullmatch(text)
        if note is None:
            refused.append(f"{text}: GitLab does not say who ticked it; tick it again")
        elif note.author_id not in maintainers:
            refused.append(f"{text}: {note.author} is not a Maintainer")
        elif text == ALL_BOX:
            off_by = note.author
        elif match:
            groups[match[1]] = note.author
    return Switches(off_by, groups, tuple(refused))


def _find_issue(project: Project, number: int) -> Issue:
    issue = project.issues.find(number)
    if issue is None:
        raise build_config_error(f"dashboard: {project.name} has no issue {number}")
    return issue


def write_dashboard(
    project: Project, number: int, figures: HistoryFigures, groups: Iterable[str]
) -> str:
    """Write the dashboard, and return the issue's URL. Ticked boxes, and people's text before
    ``START``, are kept. Raises ApiError, and ``E_CONFIG`` without such an issue."""
    issue, switches = _find_issue(project, number), read_switches(project, number)
    page = render_dashboard(figures, groups, switches, issue.description)
    if page != issue.description:
        project.issues.edit_description(number, page)
    return issue.web_url


def render_dashboard(
    figures: HistoryFigures, groups: Iterable[str], switches: Switches, old: str
) -> str:
    """The whole new description; ``old`` is the issue's description until now."""
    head, ticked = old.partition(START)[0].rstrip(), list_ticked(old, START)
    boxes = [ALL_BOX, *(f"{ALL_BOX} below {group}" for group in groups)]
    parts = [
        START,
        "A tick by a Maintainer takes effect with the next hour's plan. `nightshift fleet stop`"
        " also stops what runs, and nights that projects start themselves.",
        "",
        *(f"- [{'x' if text in ticked else ' '}] {text}" for text in boxes),
        "",
        *(f"- not accepted: {to_markdown_line(each)}" for each in switches.refused),
        *_render_figures(figures),
    ]
    return "\n".join([head, "", *parts] if head else parts)


def _render_figures(figures: HistoryFigures) -> Iterator[str]:
    yield f"\n## {figures.since} to {figures.until}\n"
    yield "| | opened | merged | closed | open | ignored | nights | cost | per merged |"
    yield "|---|---|---|---|---|---|---|---|---|"
    rows = sorted(figures.groups, key=lambda each: (-each.opened, each.name))
    yield from map(_render_row, (figures.total, *rows[:MOST_ROWS]))
    if figures.failures:
        yield "\n## Nights that failed in the same way\n"
        for failure in figures.failures[:MOST_ROWS]:
            projects = count_words(failure.projects, "project")
            yield f"- {failure.nights} in {projects}: {to_markdown_line(failure.reason)}"
    if figures.silent:
        names = ", ".join(figures.silent[:MOST_ROWS])
        count = count_words(len(figures.silent), "project")
        yield f"\n## Set up, but without nights\n\n{count}: {to_markdown_line(names)}"
    yield from (f"\nNot known: {to_markdown_line(text)}" for text in figures.history.unknown)


def _render_row(row: RowFigures) -> str:
    counts = (row.opened, row.merged, row.closed, row.waiting, row.ignored, row.nights)
    cells = [to_table_cell(row.name, LONGEST_CELL), *map(str, counts)]
    cells += map(format_usd, (row.cost_usd, row.cost_per_merged_usd))
    return f"| {' | '.join(cells)} |"
