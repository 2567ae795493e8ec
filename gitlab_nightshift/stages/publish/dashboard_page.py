"""The description of the dashboard issue, and which of its ticked boxes count: pure functions from
records to Markdown, and back.

This program replaces everything from ``START`` on, and keeps what people write above it. Data for
the next night is JSON in an HTML comment, signed with a key derived from the token: editing it by
hand only makes it invalid.
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

_TRY_BOX = compile_lazily(r"try ([a-z0-9_-]{1,60}) at the next night")
_ALLOW_BOX = compile_lazily(r"allow the idea of merge request (\d{1,9}) again")
# GitLab's system note on a ticked box; older versions say "task" (its background migration
# RenameTaskSystemNoteToChecklistItem).
_TICK_NOTE = compile_lazily(
    r"marked the (?:checklist item|task) \*\*(.{1,300})\*\* as (completed|incomplete)"
)


@dataclass(frozen=True)
class Tick:
    """A ticked box that counts, with the system note on the tick. It asks for one of three things:
    to try a ``category``, to allow a rejected idea again (``restore_iid`` is its merge request), or
    to publish the change of ``approve_pipeline``."""

    text: str
    note: SystemNote
    category: str = ""
    restore_iid: int = 0
    approve_pipeline: str = ""


@dataclass(frozen=True)
class BoxTargets:
    """The categories and nights that the boxes may name."""

    categories: Collection[str] = ()
    nights: Collection[DashboardNight] = ()


@dataclass(frozen=True)
class Ticks:
    """The ticks that count, oldest first, and the others (the box's text, and why)."""

    valid: tuple[Tick, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def find_tick_notes(
    ticked: Collection[str], notes: Iterable[SystemNote], after: int
) -> dict[str, SystemNote]:
    """The newest system note on each ticked box, unless it says that the box was cleared. Only
    notes with a greater id than ``after`` count."""
    completed: dict[str, SystemNote] = {}
    for note in sorted(notes, key=lambda each: each.id):
        match = _TICK_NOTE.fullmatch(note.body.strip())
        if not match or note.id <= after:
            continue
        text, state = match[1].strip(), match[2]
        completed.pop(text, None)
        if state == "completed" and text in ticked:
            completed[text] = note
    return completed


def read_ticks(
    ticked: Collection[str],
    notes: Mapping[str, SystemNote],
    developers: Collection[int],
    targets: BoxTargets,
) -> Ticks:
    """The ticks that count: those that one of the ``developers`` (user ids) made, by ``notes``."""
    valid: list[Tick] = []
    refused: list[tuple[str, str]] = []
    note_ids = {text: note.id for text, note in notes.items()}
    for text in sorted(ticked, key=lambda text: (note_ids.get(text, 0), text)):
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
    is_offered = night.outcome is Outcome.FAILED and _find_category(night) in categories
    if not (is_offered and _has_pipeline_id(night)):
        return ""
    return f"retry the night of pipeline {night.run_id}"


def build_approve_box(night: DashboardNight) -> str:
    """The text of the box that approves a night's change; "" if none waits for approval."""
    is_waiting = night.outcome is Outcome.APPROVAL_REQUIRED and _has_pipeline_id(night)
    return f"approve the change of pipeline {night.run_id}" if is_waiting else ""


def _build_tick(text: str, note: SystemNote, targets: BoxTargets) -> Tick | None:
    match = _TRY_BOX.fullmatch(text)
    if match and match[1] in targets.categories:
        return Tick(text, note, category=match[1])
    for night in targets.nights:
        if text == build_retry_box(night, targets.categories):
            return Tick(text, note, category=_find_category(night))
        if text == build_approve_box(night):
            return Tick(text, note, approve_pipeline=night.run_id)
    match = _ALLOW_BOX.fullmatch(text)
    return Tick(text, note, restore_iid=int(match[1])) if match else None


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
"""Merge requests per section."""
# Without <, > and line ends, so that data cannot end their HTML comment early.
_DATA = compile_lazily(
    rf"<!-- nightshift-data: ([0-9a-f]{{64}}) (\{{[^<>\n]{{0,{LONGEST_DATA}}}\}}) -->"
)
# A checked task list item has an x or an X (github.github.com/gfm, 5.3).
_CHECKED_BOX = compile_lazily(r"^- \[[xX]\] (.{1,300}?)[ \t]*$", re.MULTILINE)


def build_key(token: str, project: int) -> bytes:
    """The key that signs a project's dashboard."""
    text = f"nightshift dashboard {project}"
    return hmac.digest(token.encode(), text.encode(), "sha256")


def render_page(dashboard: Dashboard, key: bytes, old: str, ticked: frozenset[str]) -> str:
    """The new description. What people wrote above the dashboard in ``old`` and ticks are kept."""
    head = old.partition(START)[0].rstrip()
    data = encode_for_comment(asdict(dashboard.memory))
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
    """The texts of the ticked boxes below ``start``, the marker at a dashboard's beginning."""
    # Browsers send the line ends of a form as CRLF.
    return frozenset(_CHECKED_BOX.findall(description.partition(start)[2].replace("\r\n", "\n")))


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
    shown = tuple(opened)[:MOST_ROWS]
    for each in shown:
        suffix = ", nobody has commented yet" if each.unread else ""
        link, title = _link(f"!{each.iid}", each.web_url), to_markdown_line(each.title, 200)
        yield f"- {link} {title}{suffix}"
    if not shown:
        yield "None."


def _render_nights(dashboard: Dashboard, ticked: frozenset[str]) -> Iterator[str]:
    yield "\n## Last nights\n"
    nights, categories = dashboard.memory.nights, [each.category for each in dashboard.outlook]
    if nights:
        yield "| day | outcome | category | result | cost | duration |\n|---|---|---|---|---|---|"
        yield from map(_render_night, nights)
    else:
        yield "None known."
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
        link, title = _link(f"!{each.iid}", each.web_url), to_markdown_line(each.title, 200)
        yield f"- {link} {title}: {to_markdown_line(why)}"
    if not rows:
        yield "None."
    yield ""
    for each in rows:
        yield _render_box(f"allow the idea of merge request {each.iid} again", ticked)
    yield ""


def _render_box(text: str, ticked: frozenset[str]) -> str:
    return f"- [{'x' if text in ticked else ' '}] {text}"


def _link(text: str, url: str) -> str:
    """A Markdown link; only the text if the URL is not http(s) or could break out of the link."""
    safe = url.startswith(("https://", "http://")) and not set(url) & set("()<>|\\ \"'\n")
    return f"[{text}]({url})" if safe and text else text
