"""Reads which boxes people have ticked on the dashboard, and whose ticks count: pure functions."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gitlab_nightshift.gitlab.issues import SystemNote
from gitlab_nightshift.records.history_records import DashboardNight
from gitlab_nightshift.records.products import Outcome
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
    """A box that counts: ``category`` to try, the number of a rejected idea to ``restore``, or the
    pipeline whose change is to be published (``approve``)."""

    text: str
    note: SystemNote
    category: str = ""
    restore: int = 0
    approve: str = ""


@dataclass(frozen=True)
class BoxTargets:
    """What boxes can refer to."""

    categories: Collection[str] = ()
    nights: Collection[DashboardNight] = ()


@dataclass(frozen=True)
class Ticks:
    """The ticks that count, oldest first, and why others do not, by the box's text."""

    valid: tuple[Tick, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def find_ticking(
    ticked: Collection[str], notes: Iterable[SystemNote], after: int
) -> dict[str, SystemNote]:
    """The newest note on each ticked box since ``after`` (a note's id), if it is a tick."""
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
    by: Mapping[str, SystemNote],
    developers: Collection[int],
    targets: BoxTargets,
) -> Ticks:
    """The ticks that count: GitLab says who made each (``by``), and that is a Developer."""
    valid: list[Tick] = []
    refused: list[tuple[str, str]] = []
    for text in sorted(ticked, key=lambda each: (by[each].id if each in by else 0, each)):
        tick = _build_tick(text, by[text], targets) if text in by else None
        if text not in by:
            refused.append((text, "GitLab does not say who ticked it"))
        elif by[text].author_id not in developers:
            refused.append((text, f"{by[text].author} is not a Developer"))
        elif tick is None:
            refused.append((text, "this dashboard has no such box"))
        else:
            valid.append(tick)
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
    """The text of the box that approves the change of a night; "" where none waits."""
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
