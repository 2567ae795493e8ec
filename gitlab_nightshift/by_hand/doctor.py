"""``nightshift doctor --boundary``: would a night start here, and what would keep its agent in.

The work stage itself opens its room, with this job's settings, and proves it; only the agent never
starts. So the selection is the night's, and what is told was tried.
"""

import dataclasses
import typing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gitlab_nightshift.by_hand.risky import Risk, find_risks
from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.events import BoundaryChosen, BoundaryProven, Event, Note
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.sandbox.records import Tier
from gitlab_nightshift.host.sandbox.strength import refuse_weaker
from gitlab_nightshift.promises import Strength
from gitlab_nightshift.records import Outcome, Plan
from gitlab_nightshift.session import Call, Session, opened
from gitlab_nightshift.settings.job import MODEL_KEYS
from gitlab_nightshift.settings.model import Promise
from gitlab_nightshift.work.agents import provider_of
from gitlab_nightshift.work.baseline import Baseline
from gitlab_nightshift.work.ending import Ending
from gitlab_nightshift.work.ledger import open_ledger
from gitlab_nightshift.work.stage import Course, Tools, WorkPlace, in_a_room, prepare
from gitlab_nightshift.work_place import work_place

LOOK = Course(
    first=lambda _place, _checkout, _runner: Baseline(),
    then=lambda _night: Ending(Outcome.NO_IMPROVEMENT, "", "none"),
)
"""In the room, behind the proof, and out again."""
EVERY_PROMISE = list(typing.get_args(Promise))


@dataclass
class Examined:
    """What was seen. ``planted`` are the folders in which this program's own code was tried,
    ``refused`` why a night would not start, the first reason first."""

    chosen: BoundaryChosen | None = None
    proven: BoundaryProven | None = None
    notes: list[Note] = field(default_factory=list)
    planted: tuple[str, ...] = ()
    risks: tuple[Risk, ...] | None = None
    refused: list[NightshiftError] = field(default_factory=list)

    @property
    def exit_status(self) -> int:
        """0 only where a night would start, else the status that it would end with."""
        return self.refused[0].exit_status if self.refused else 0

    @property
    def guarantees(self) -> tuple[Strength, ...]:
        """As the proof left them; before it, as the sandbox promises them."""
        told = self.proven or self.chosen
        return told.guarantees if told else ()

    def __call__(self, event: Event) -> None:
        """The run's one sink."""
        if isinstance(event, BoundaryChosen):
            self.chosen = event
        elif isinstance(event, BoundaryProven):
            self.proven = event
        elif isinstance(event, Note):
            self.notes.append(event)


def examine(call: Call) -> Examined:
    """Open the room of a night and look. Only mistakes of this program raise."""
    seen = Examined()
    try:
        with opened(call) as session:
            _look(dataclasses.replace(session, emit=seen), seen)
    except NightshiftError as error:
        seen.refused.append(error)
    return seen


def _look(session: Session, seen: Examined) -> None:
    settings = session.settings
    needed = ("GITLAB_TOKEN", *MODEL_KEYS)
    seen.risks = find_risks(session.env, session.checkout, needed, settings.agent_env)
    place = _place(session)
    top = session.checkout.resolve()
    folders = (str(path.resolve().relative_to(top)) for path in place.named)
    seen.planted = tuple(dict.fromkeys(folders))
    tools = _tools(place, seen)
    base = git_verbs.head(session.git, session.checkout)
    today = datetime.now(UTC).date().isoformat()
    plan = Plan(session.job.run_id, today, base, "", scheduled="", categories=())
    in_a_room(plan, place, tools, open_ledger(plan, None), LOOK)
    if seen.chosen:
        refuse_weaker(Tier(seen.chosen.tier), seen.chosen.guarantees, settings.accept_partial)


def _place(session: Session) -> WorkPlace:
    """The night's, which goes on for a look where it is only partly held, and records nothing."""
    place = work_place(session)
    looking = {"accept_partial": EVERY_PROMISE, "record_dir": None}
    return dataclasses.replace(place, settings=place.settings.model_copy(update=looking))


def _tools(place: WorkPlace, seen: Examined) -> Tools:
    """Where the agent cannot be used, there is no night; the boundary is looked at all the same."""
    try:
        return prepare(place)
    except NightshiftError as error:
        seen.refused.append(error)
        return Tools(provider_of(place.settings), {})
