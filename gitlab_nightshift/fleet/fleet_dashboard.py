"""The fleet's dashboard: one issue of the control project, with figures and switches.

``fleet.yaml`` has the issue's number: anybody could write an issue with the same text. A switch is
a ticked box. GitLab's system note tells who ticked it, and only a Maintainer's tick counts. ``fleet
plan`` obeys switches; running nights, and those that projects start themselves, need ``fleet
stop``.
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
"""Marks the beginning of the part of the description that this program writes."""
ALL = "start no nights"
"""The text of the box that switches everything off."""
MOST_ROWS, LONGEST_CELL = 30, 120
MOST_PAGES = 20
"""Pages of 100 notes; each report's edit adds one note."""
_BELOW = re.compile(re.escape(ALL) + r" below ([\w./-]{1,250})")


@dataclass(frozen=True)
class Switches:
    """The nights that Maintainers switched off. ``everything`` is the user who switched off all
    nights, "" if nobody did; ``groups`` maps a group to the user who switched it off; ``refused``
    are ticked boxes that do not count, with the reason."""

    everything: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def find_reason(self, path: str) -> str:
        """Why a project gets no night; "" if it is not switched off."""
        if self.everything:
            return f"switched off on the dashboard by @{self.everything}"
        below = (name for group, name in self.groups.items() if path.startswith(f"{group}/"))
        name = next(below, "")
        return f"its group is switched off on the dashboard by @{name}" if name else ""


NOTHING_OFF = Switches()


def read_switches(project: Project, number: int) -> Switches:
    """The switches in the control project's issue with this number. Raises ApiError, and
    ``E_CONFIG`` without such an issue: nothing starts while switches cannot be read."""
    issue = _find_issue(project, number)
    ticked = list_ticked(issue.description, START)
    if not ticked:
        return NOTHING_OFF
    # The description alone proves nothing: whoever may edit it can tick a box.
    by_box = find_tick_notes(ticked, project.issues.list_system_notes(number, MOST_PAGES), 0)
    people = project.people.find_maintainers(each.author_id for each in by_box.values())
    everything, groups, refused = "", dict[str, str](), list[str]()
    for text in sorted(ticked):
        note, below = by_box.get(text), _BELOW.fullmatch(text)
        if note is None:
            refused.append(f"{text}: GitLab does not say who ticked it; tick it again")
        elif note.author_id not in people:
            refused.append(f"{text}: {note.author} is not a Maintainer")
        elif text == ALL:
            everything = note.author
        elif below:
            groups[below[1]] = note.author
    return Switches(everything, groups, tuple(refused))


def _find_issue(project: Project, number: int) -> Issue:
    issue = project.issues.find(number)
    if issue is None:
        raise build_config_error(f"dashboard: {project.name} has no issue {number}")
    return issue


def write_dashboard(
    project: Project, number: int, figures: HistoryFigures, groups: Iterable[str]
) -> str:
    """Write the page, and return its address. Ticked boxes and people's text before the mark are
    kept. Raises ApiError, and ``E_CONFIG`` without such an issue."""
    issue, switches = _find_issue(project, number), read_switches(project, number)
    page = render_dashboard(figures, groups, switches, issue.description)
    if page != issue.description:
        project.issues.edit_description(number, page)
    return issue.web_url


def render_dashboard(
    figures: HistoryFigures, groups: Iterable[str], switches: Switches, before: str
) -> str:
    """The whole description."""
    head, ticked = before.partition(START)[0].rstrip(), list_ticked(before, START)
    boxes = [ALL, *(f"{ALL} below {group}" for group in groups)]
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
    yield from map(_render_share, (figures.total, *rows[:MOST_ROWS]))
    if figures.failures:
        yield "\n## Nights that failed in the same way\n"
        for each in figures.failures[:MOST_ROWS]:
            where = count_words(each.projects, "project")
            yield f"- {each.nights} in {where}: {to_markdown_line(each.reason)}"
    if figures.silent:
        names = ", ".join(figures.silent[:MOST_ROWS])
        count = count_words(len(figures.silent), "project")
        yield f"\n## Set up, but without nights\n\n{count}: {to_markdown_line(names)}"
    yield from (f"\nNot known: {to_markdown_line(text)}" for text in figures.history.unknown)


def _render_share(share: RowFigures) -> str:
    counts = (share.opened, share.merged, share.closed, share.waiting, share.ignored, share.nights)
    cells = [to_table_cell(share.name, LONGEST_CELL), *map(str, counts)]
    cells += map(format_usd, (share.cost_usd, share.cost_per_merged_usd))
    return f"| {' | '.join(cells)} |"
