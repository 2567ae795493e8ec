"""The description of the dashboard issue, and which of its ticked boxes count: pure functions from
records to Markdown, and back.

Everything from ``START`` on is this program's; what people write above it stays. Data for the next
night is JSON in an HTML comment, signed with a key derived from the token: edits by hand only make
it invalid.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from gitlab_nightshift.gitlab.issues import SystemNote
from gitlab_nightshift.gitlab.marker import encode_for_comment
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record
from gitlab_nightshift.records.history_records import (
    CategoryOutlook,
    Dashboard,
    DashboardMemory,
    DashboardNight,
)
from gitlab_nightshift.records.products import KnownMergeRequest, Outcome
from gitlab_nightshift.records.usage import format_usd
from gitlab_nightshift.stages.publish.escaping import to_markdown_line, to_table_cell
from gitlab_nightshift.stages.report.result_texts import format_duration
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TRY = compile_lazily(r"try ([a-z0-9_-]{1,60}) at the next night")
_RESTORE = compile_lazily(r"allow the idea of merge request (\d{1,9}) again")
# GitLab's system note on a ticked box; older versions say "task" (its background migration
# RenameTaskSystemNoteToChecklistItem).
_TICK = compile_lazily(
    r"marked the (?:checklist item|task) \*\*(.{1,300})\*\* as (completed|incomplete)"
)


@dataclass(frozen=True)
class Tick:
    """A ticked box that counts, with the system note on the tick. It asks for one of three: a
    ``category`` to try, a rejected idea to ``restore`` (the number of its merge request), or the
    pipeline whose change is to be published (``approve``)."""

    text: str
    note: SystemNote
    category: str = ""
    restore: int = 0
    approve: str = ""


@dataclass(frozen=True)
class BoxTargets:
    """The categories and nights that a box may name."""

    categories: Collection[str] = ()
    nights: Collection[DashboardNight] = ()


@dataclass(frozen=True)
class Ticks:
    """The ticks that count, oldest first, and why others do not, by the box's text."""

    valid: tuple[Tick, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def find_tick_notes(
    ticked: Collection[str], notes: Iterable[SystemNote], after: int
) -> dict[str, SystemNote]:
    """For each ticked box the newest system note after the one with the id ``after``, if that says
    that the box was ticked, not cleared."""
    newest: dict[str, tuple[str, SystemNote]] = {}
    for note in sorted(notes, key=lambda each: each.id):
        match = _TICK.fullmatch(note.body.strip())
        if match and note.id > after:
            newest[match[1].strip()] = (match[2], note)
    return {
        text: note
        for text, (state, note) in newest.items()
        if state == "completed" and text in ticked
    }


def read_ticks(
    ticked: Collection[str],
    notes: Mapping[str, SystemNote],
    developers: Collection[int],
    targets: BoxTargets,
) -> Ticks:
    """The ticks that count: by ``notes``, one of the ``developers`` (user ids) made each."""
    valid: list[Tick] = []
    refused: list[tuple[str, str]] = []
    for text in sorted(ticked, key=lambda each: (notes[each].id if each in notes else 0, each)):
        note = notes.get(text)
        if note is None:
            refused.append((text, "GitLab does not say who ticked it"))
        elif note.author_id not in developers:
            refused.append((text, f"{note.author} is not a Developer"))
        elif tick := _build_tick(text, note, targets):
            valid.append(tick)
        else:
            refused.append((text, "this dashboard has no such box"))
    return Ticks(tuple(valid), tuple(refused))


def build_retry_box(night: DashboardNight, categories: Collection[str]) -> str:
    """The text of the box that tries the category of a failed night again; "" without one."""
    category = _find_category(night)
    is_offered = night.outcome is Outcome.FAILED and category in categories
    return (
        f"retry the night of pipeline {night.run_id}"
        if is_offered and _has_pipeline_id(night)
        else ""
    )


def build_approve_box(night: DashboardNight) -> str:
    """The text of the box that approves the change of a night; "" if none waits."""
    is_waiting = night.outcome is Outcome.APPROVAL_REQUIRED and _has_pipeline_id(night)
    return f"approve the change of pipeline {night.run_id}" if is_waiting else ""


def _build_tick(text: str, note: SystemNote, targets: BoxTargets) -> Tick | None:
    attempt, restore = _TRY.fullmatch(text), _RESTORE.fullmatch(text)
    if attempt and attempt[1] in targets.categories:
        return Tick(text, note, category=attempt[1])
    for night in targets.nights:
        if text == build_retry_box(night, targets.categories):
            return Tick(text, note, category=_find_category(night))
        if text == build_approve_box(night):
            return Tick(text, note, approve=night.run_id)
    return Tick(text, note, restore=int(restore[1])) if restore else None


def _find_category(night: DashboardNight) -> str:
    """The category alone, without "(fallback from …)"."""
    return night.category.partition(" (")[0]


def _has_pipeline_id(night: DashboardNight) -> bool:
    return night.run_id.isascii() and night.run_id.isdigit()


# --- the page -----------------------------------------------------------------------------------


TITLE = "Night shift"
START = "<!-- nightshift-dashboard -->"
LONGEST_DATA = 100_000
"""Characters of the stored JSON; GitLab takes a description of one megabyte."""
MOST_ROWS = 20
"""Merge requests of one section."""
# Without <, > and line ends, so that data cannot end their HTML comment early.
_DATA = compile_lazily(
    rf"<!-- nightshift-data: ([0-9a-f]{{64}}) (\{{[^<>\n]{{0,{LONGEST_DATA}}}\}}) -->"
)
# A task list item may be checked by either letter (github.github.com/gfm, 5.3).
_CHECKED = compile_lazily(r"^- \[[xX]\] (.{1,300}?)[ \t]*$", re.MULTILINE)


def build_key(token: str, project: int) -> bytes:
    """The key that signs a project's dashboard."""
    text = f"nightshift dashboard {project}"
    return hmac.digest(token.encode(), text.encode(), "sha256")


def render_page(dashboard: Dashboard, key: bytes, old: str, ticked: frozenset[str]) -> str:
    """The whole new description. It keeps what people wrote above the dashboard in the ``old`` one;
    boxes with the texts ``ticked`` stay ticked."""
    head, data = old.partition(START)[0].rstrip(), encode_for_comment(asdict(dashboard.memory))
    parts = [
        START,
        *_render_state(dashboard),
        *_render_opened(dashboard.opened),
        *_render_nights(dashboard, ticked),
        *_render_outlook(dashboard.outlook, ticked),
        *_render_rejected(dashboard, ticked),
        f"<!-- nightshift-data: {_compute_signature(data, key)} {data} -->",
    ]
    return "\n".join([head, "", *parts] if head else parts)


def read_page(description: str, key: bytes) -> DashboardMemory | None:
    """The data in a dashboard's description; None without data, or if the signature is wrong."""
    for signature, text in _DATA.findall(description.partition(START)[2]):
        if hmac.compare_digest(signature, _compute_signature(text, key)):
            try:
                return decode_record(DashboardMemory, text.encode())
            except InvalidRecordError:
                return None
    return None


def list_ticked(description: str, start: str = START) -> frozenset[str]:
    """The texts of the ticked boxes below ``start``, the mark where a dashboard begins."""
    # Browsers send the line ends of a form as CRLF.
    return frozenset(_CHECKED.findall(description.partition(start)[2].replace("\r\n", "\n")))


def _compute_signature(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


# --- sections -------------------------------------------------------------------------------------


def _render_state(dashboard: Dashboard) -> Iterator[str]:
    yield "A tick by a Developer or above takes effect in the next night."
    if dashboard.paused:
        yield f"\n**Paused**: {to_markdown_line(dashboard.paused)}"
    for text in dashboard.unknown:
        yield f"\nNot known: {to_markdown_line(text)}"
    if dashboard.memory.answers:
        yield ""
        yield from (f"- {to_markdown_line(text)}" for text in dashboard.memory.answers)


def _render_opened(opened: Iterable[KnownMergeRequest]) -> Iterator[str]:
    yield "\n## Open merge requests\n"
    rows = [
        f"- {_link(f'!{each.iid}', each.web_url)} {to_markdown_line(each.title, 200)}"
        + (", nobody has commented yet" if each.unread else "")
        for each in tuple(opened)[:MOST_ROWS]
    ]
    yield from rows or ["None."]


def _render_nights(dashboard: Dashboard, ticked: frozenset[str]) -> Iterator[str]:
    yield "\n## Last nights\n"
    nights, categories = dashboard.memory.nights, [each.category for each in dashboard.outlook]
    rows = [_render_night(each) for each in nights]
    if rows:
        yield "| day | outcome | category | result | cost | duration |\n|---|---|---|---|---|---|"
    yield from rows or ["None known."]
    yield ""
    for night in nights:
        for text in (build_approve_box(night), build_retry_box(night, categories)):
            if text:
                yield _render_box(text, ticked)


def _render_night(night: DashboardNight) -> str:
    text = to_table_cell(night.text, 200)
    cells = (
        _link(night.day, night.pipeline_url),
        night.outcome.value,
        to_table_cell(night.category, 100),
        _link(text, night.mr_url),
        format_usd(night.cost_usd),
        format_duration(night.duration_s),
    )
    return f"| {' | '.join(cells)} |"


def _render_outlook(outlook: Iterable[CategoryOutlook], ticked: frozenset[str]) -> Iterator[str]:
    yield "\n## Categories\n"
    rows = tuple(outlook)
    for each in rows:
        when = f"next on {each.day}" if each.day else "not in the schedule"
        why = f"; skipped for now: {to_markdown_line(each.reason)}" if each.reason else ""
        yield f"- **{each.category}**: {when}{why}"
    yield ""
    yield from (_render_box(f"try {each.category} at the next night", ticked) for each in rows)


def _render_rejected(dashboard: Dashboard, ticked: frozenset[str]) -> Iterator[str]:
    yield "\n## Rejected ideas\n"
    rows = dashboard.rejected[:MOST_ROWS]
    for each in rows:
        why = "; ".join(each.reasons) or "no reason given"
        name, title = _link(f"!{each.iid}", each.web_url), to_markdown_line(each.title, 200)
        yield f"- {name} {title}: {to_markdown_line(why)}"
    if not rows:
        yield "None."
    yield ""
    for each in rows:
        yield _render_box(f"allow the idea of merge request {each.iid} again", ticked)
    yield ""


def _render_box(text: str, ticked: frozenset[str]) -> str:
    return f"- [{'x' if text in ticked else ' '}] {text}"


def _link(text: str, url: str) -> str:
    """A link to an address of GitLab's; only the text if the address could break out of it."""
    safe = url.startswith(("https://", "http://")) and not set(url) & set("()<>|\\ \"'\n")
    return f"[{text}]({url})" if safe and text else text
