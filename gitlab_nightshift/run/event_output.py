"""Writes redacted events to the job log and to ``events.jsonl``."""

from collections.abc import Callable

from gitlab_nightshift.records.events import Emit, Event, Note, RunEnded
from gitlab_nightshift.records.storage import map_texts
from gitlab_nightshift.text.printable_text import replace_controls


def replace_control_characters(text: str) -> str:
    """Replace control characters, except newlines and tabs, by U+FFFD.

    Events quote agents, so a control character is no reason to drop the event.
    """
    return replace_controls(text.replace("\r\n", "\n"), "\ufffd")


class EventDispatcher:
    """Passes events to all sinks. ``RunEnded`` waits until ``end``: nothing may follow it."""

    def __init__(self, sinks: dict[str, Emit], change: Callable[[str], str]) -> None:
        self._sinks, self._change = dict(sinks), change
        self._last: RunEnded | None = None
        self._over = False

    def __call__(self, event: Event) -> None:
        """Pass an event on to all sinks."""
        if isinstance(event, RunEnded):
            self._last = self._last or event
        elif not self._over:
            self._show(event)

    def end(self) -> None:
        """Pass on ``RunEnded``, if a sender has sent it."""
        if self._last and not self._over:
            self._show(self._last)
            self._over = True

    def _show(self, event: Event) -> None:
        self._write(map_texts(event, lambda text: replace_control_characters(self._change(text))))

    def _write(self, event: Event) -> None:
        for name, sink in tuple(self._sinks.items()):
            try:
                sink(event)
            except OSError as error:  # never a full disk, which sinks survive
                del self._sinks[name]
                text = f"{name} cannot be written any more: {error.strerror}"
                self._write(Note(text, warning=True))
