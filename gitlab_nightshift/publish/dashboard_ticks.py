"""What people have ticked on the dashboard, and whose tick counts: pure functions."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gitlab_nightshift.gitlab.issues import SystemNote
from gitlab_nightshift.lazy_patterns import compile_lazily

_TRY = compile_lazily(r"try ([a-z0-9_-]{1,60}) at the next night")
_RESTORE = compile_lazily(r"allow the idea of merge request (\d{1,9}) again")
_TICK = compile_lazily(
    r"marked the (?:checklist item|task) \*\*(.{1,200})\*\* as (completed|incomplete)"
)


@dataclass(frozen=True)
class Tick:
    """A box that counts: ``category`` to try, or the number of a rejected idea to ``restore``."""

    text: str
    note: SystemNote
    category: str = ""
    restore: int = 0


@dataclass(frozen=True)
class Ticks:
    """Those that count, the oldest first, and for each that does not why, by the box's text."""

    valid: tuple[Tick, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def find_ticking(
    ticked: Collection[str], notes: Iterable[SystemNote], after: int
) -> dict[str, SystemNote]:
    """The newest note on each ticked box since ``after`` (a note's id), where it is a tick."""
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
    categories: Collection[str],
) -> Ticks:
    """The ticks that count: GitLab says who made each (``by``), and that is a Developer."""
    valid: list[Tick] = []
    refused: list[tuple[str, str]] = []
    for text in sorted(ticked, key=lambda each: (by[each].id if each in by else 0, each)):
        tick = _build_tick(text, by[text], categories) if text in by else None
        if text not in by:
            refused.append((text, "GitLab does not say who ticked it"))
        elif by[text].author_id not in developers:
            refused.append((text, f"{by[text].author} is no Developer"))
        elif tick is None:
            refused.append((text, "it is no box of this dashboard"))
        else:
            valid.append(tick)
    return Ticks(tuple(valid), tuple(refused))


def _build_tick(text: str, note: SystemNote, categories: Collection[str]) -> Tick | None:
    wanted, restore = _TRY.fullmatch(text), _RESTORE.fullmatch(text)
    if wanted and wanted[1] in categories:
        return Tick(text, note, category=wanted[1])
    return Tick(text, note, restore=int(restore[1])) if restore else None
