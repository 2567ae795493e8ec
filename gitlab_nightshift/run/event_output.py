"""The events of a run without secrets, in the job log and in ``events.jsonl``."""

from collections.abc import Callable

from gitlab_nightshift.records.events import Emit, Event, Note, RunEnded
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.text.printable_text import replace_controls


def replace_control_characters(text: str) -> str:
    """A text in which a control character, but for the ends of lines and tabs, is a sign for one.

    An agent's words stand in events, so an event that has one is no reason to drop it.
    """
    return replace_controls(text.replace("\r\n", "\n"), "\ufffd")


class EventDispatcher:
    """The sinks of all senders' events. The last event, ``RunEnded``, waits for ``end``: nothing
    comes after it."""

    def __init__(self, sinks: dict[str, Emit], change: Callable[[str], str]) -> None:
        self._sinks, self._change = dict(sinks), change
        self._last: RunEnded | None = None
        self._over = False

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        if isinstance(event, RunEnded):
            self._last = self._last or event
        elif not self._over:
            self._show(event)

    def end(self) -> None:
        """Pass on how the run ended, if somebody has said it."""
        if self._last and not self._over:
            self._show(self._last)
            self._over = True

    def _show(self, event: Event) -> None:
        self._write(map_texts(event, lambda text: replace_control_characters(self._change(text))))

    def _write(self, event: Event) -> None:
        for name, sink in tuple(self._sinks.items()):
            try:
                sink(event)
            except OSError as error:  # not a full disk: the sinks go on after that
                del self._sinks[name]
                text = f"{name} cannot be written any more: {error.strerror}"
                self._write(Note(text, warning=True))
