"""The client of the gateway's process, which alone holds the keys, by its control socket."""

import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway import control_messages
from gitlab_nightshift.gateway.keys import BeadTicket
from gitlab_nightshift.records.codec import make_record
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.records.tool_calls import MOST_CALLS, ToolCall, ToolUse, clean_line
from gitlab_nightshift.records.usage import NOT_KNOWN, Usage
from gitlab_nightshift.sandbox.tiers import Gate
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.printable_text import make_printable

ANSWER_S = 120.0
"""Seconds for an answer: the process may still be loading, on a busy machine."""
QUIET_S = 2.0
"""Seconds after which a wait is reported."""
GONE = "the model gateway has ended"
LONGEST_TEXT = 2_000
T = TypeVar("T")


@dataclass(frozen=True)
class EgressTicket:
    """What a bead's tools get: ``url`` is the value of ``HTTPS_PROXY`` (and ``HTTP_PROXY``)."""

    url: str = field(repr=False)
    credential: str = field(repr=False)


@dataclass(frozen=True)
class EgressTraffic:
    """The hosts to which most was sent, with bytes sent and received; ``more`` counts others."""

    hosts: tuple[tuple[str, int, int], ...] = ()
    more: int = 0


@dataclass(frozen=True)
class BeadState:
    """A bead's usage so far, whether a request exceeded its budget, and why no bead can go on (""
    if they can)."""

    usage: Usage
    exhausted: bool
    unusable: str


class GatewayGone(NightshiftError):
    """The gateway's process has ended, or gives no answer."""

    def __init__(self) -> None:
        super().__init__(Code.PROVIDER_UNAVAILABLE, GONE)


class RemoteGateway:
    """Sends requests to the gateway's process, from any thread. Its notes go to ``emit``.

    If it has ended, methods that open something raise :class:`GatewayGone`
    (``E_PROVIDER_UNAVAILABLE``); those that look or close return a value that says so.
    """

    def __init__(self, control: socket.socket, emit: Emit) -> None:
        self._control, self._emit = control, emit
        self._control.settimeout(ANSWER_S)
        self._lock, self._gone = threading.Lock(), False

    def listen(self, what: str, path: Path) -> Gate:
        """Let it serve the ``model``, or the ``egress`` proxy, once: on loopback, and on a socket
        at ``path`` that only this user can open. Raises OSError, ``E_CONFIG`` for a CA file."""
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            path.chmod(0o600)  # connect needs write permission on the socket file (unix(7))
            return self._ask(
                "listen", lambda row: Gate(_check_count(row["port"]), path), bound, what=what
            )

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        """Let a bead use these models, as far as its budget and the run's go."""
        return self._ask(
            "open_bead",
            lambda row: BeadTicket(
                bead, _check_text(row["placeholder"]), _check_text(row["base_url"])
            ),
            bead=bead,
            models=sorted(models),
            budget_usd=budget_usd,
            budget_tokens=budget_tokens,
        )

    def look(self, ticket: BeadTicket) -> BeadState:
        """The state of a bead."""
        try:
            return self._ask("look", _read_bead_state, bead=ticket.placeholder)
        except GatewayGone:
            return BeadState(NOT_KNOWN, exhausted=False, unusable=GONE)

    def close_bead(self, ticket: BeadTicket, wait_s: float = 0.0) -> Usage:
        """End a bead's requests, refuse later ones, and return what it has used.

        Answers that are still on their way have ``wait_s`` seconds to come to their end; what is
        not known then is billed at its worst. Unknown where the gateway has ended.
        """
        until, used = time.monotonic() + wait_s, None
        told_at = time.monotonic() + QUIET_S
        while used is None:
            left = max(until - time.monotonic(), 0.0)
            if told_at < time.monotonic() < until:
                told_at = until
                text = f"waiting for the end of an answer, {left:.0f} s at most"
                self._emit(Note(f"model gateway, {ticket.bead}: {text}"))
            try:
                used = self._ask("close_bead", _read_usage, bead=ticket.placeholder, wait_s=left)
            except GatewayGone:
                return NOT_KNOWN
        return used

    def list_calls(self, ticket: BeadTicket) -> ToolUse | None:
        """The tools that the model called in a bead's answers; None where the gateway has ended."""
        calls: list[ToolCall] = []
        try:
            while True:
                start = len(calls)
                rows, count, more = self._ask(
                    "list_calls", _read_calls, bead=ticket.placeholder, start=start
                )
                calls += rows
                if not rows or len(calls) >= min(count, MOST_CALLS):
                    return ToolUse("gateway", tuple(calls[:MOST_CALLS]), more)
        except GatewayGone:
            return None

    def open_egress(self, bead: str) -> EgressTicket:
        """Let a bead use the proxy for ``policy.egress_hosts``."""
        return self._ask(
            "open_egress",
            lambda row: EgressTicket(_check_text(row["url"]), _check_text(row["credential"])),
            bead=bead,
        )

    def close_egress(self, ticket: EgressTicket) -> EgressTraffic:
        """Cut a bead's connections, and return what went through them."""
        try:
            return self._ask("close_egress", _read_traffic, credential=ticket.credential)
        except GatewayGone:
            return EgressTraffic()

    def close(self) -> None:
        """Ask nothing more: the process ends."""
        with self._lock:
            self._give_up()

    def _ask(
        self,
        do: str,
        read: Callable[[dict[str, Any]], T],
        handed: socket.socket | None = None,
        **values: Any,
    ) -> T:
        """Send a request and receive its answer; signals are deferred, so neither is cut."""
        with defer_signals(), self._lock:
            reply = self._send_and_receive({"do": do, **values}, handed)
            try:
                for text, warning in reply["notes"]:
                    self._emit(Note(_check_text(text), bool(warning)))
                error = _read_error(reply) if "error" in reply else None
                found = None if error else read(reply)
            except (KeyError, TypeError, ValueError):  # not the process that we started
                self._give_up()
                raise GatewayGone from None
        if error:
            raise error
        return cast("T", found)

    def _send_and_receive(
        self, message: dict[str, Any], handed: socket.socket | None
    ) -> dict[str, Any]:
        """Raises GatewayGone. After an interruption the socket is closed: the next answer could
        belong to an earlier request."""
        if not self._gone:
            try:
                control_messages.send(self._control, message, handed)
                return control_messages.receive(self._control)[0]
            except (EOFError, OSError, control_messages.BadMessage):
                self._give_up()
            except BaseException:
                self._give_up()
                raise
        raise GatewayGone

    def _give_up(self) -> None:
        self._gone = True
        self._control.close()


# --- answers, validated: an agent may control the process -----------------------------------------


def _read_error(row: dict[str, Any]) -> NightshiftError:
    return NightshiftError(Code(row["code"]), _check_text(row["error"]))


def _read_bead_state(row: dict[str, Any]) -> BeadState:
    used = _read_usage(row)
    if used is None:
        raise ValueError("no usage")
    unusable = row["unusable"] and _check_text(row["unusable"])
    return BeadState(used, row["exhausted"] is True, unusable or "")


def _read_usage(row: dict[str, Any]) -> Usage | None:
    """None: not known yet."""
    return None if row["usage"] is None else make_record(Usage, row["usage"])


def _read_calls(row: dict[str, Any]) -> tuple[list[ToolCall], int, int]:
    """Calls, how many are kept, how many were not."""
    calls = [
        ToolCall(
            clean_line(tool, LONGEST_TEXT),
            clean_line(subject, LONGEST_TEXT),
            call_id=clean_line(name, LONGEST_TEXT),
        )
        for tool, subject, name in row["calls"]
    ]
    return calls, _check_count(row["count"]), _check_count(row["more"])


def _read_traffic(row: dict[str, Any]) -> EgressTraffic:
    rows = tuple(
        (_check_text(name), _check_count(sent), _check_count(got))
        for name, sent, got in row["traffic"]
    )
    return EgressTraffic(rows, _check_count(row["more"]))


def _check_text(value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT:
        return make_printable(value)
    raise ValueError("not a text")


def _check_count(value: object) -> int:
    if isinstance(value, int) and 0 <= value < 1 << 63:
        return value
    raise ValueError("not a count")
