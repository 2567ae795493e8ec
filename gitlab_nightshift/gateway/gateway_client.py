"""The client of the gateway's process, over the control socket: the keys stay in that process."""

import socket
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway import control_messages as messages
from gitlab_nightshift.gateway.control_messages import BeadTicket, EgressTicket
from gitlab_nightshift.records.codec import InvalidRecordError, make_record
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.records.usage import (
    LONGEST_ID,
    LONGEST_SUBJECT,
    MOST_CALLS,
    UNKNOWN_USAGE,
    ToolCall,
    ToolUse,
    Usage,
    clean_line,
)
from gitlab_nightshift.sandbox.tiers import ServicePort
from gitlab_nightshift.system.signals import defer_signals
from gitlab_nightshift.text.printable_text import make_printable

ANSWER_S = 120.0
"""Seconds for an answer: the process may still be loading, on a busy machine."""
QUIET_S = 2.0
"""Seconds after which a wait is reported."""
GONE = "the model gateway has ended"
Result = TypeVar("Result")


class GatewayGone(NightshiftError):
    """The gateway's process has ended, or gives no answer."""

    def __init__(self) -> None:
        super().__init__(Code.PROVIDER_UNAVAILABLE, GONE)


class RemoteGateway:
    """Sends requests to the gateway's process, from any thread. Its notes go to ``emit``.

    If it has ended, methods that open something raise :class:`GatewayGone`
    (``E_PROVIDER_UNAVAILABLE``); others return what is then known. An agent may control the
    gateway: texts of its answers are made printable.
    """

    def __init__(self, control: socket.socket, emit: Emit) -> None:
        self._control, self._emit = control, emit
        self._control.settimeout(ANSWER_S)
        self._lock, self._gone = threading.Lock(), False

    def listen(self, service: str, path: Path) -> ServicePort:
        """Let the gateway serve ``model`` or ``egress``, once: on loopback, and on a socket at
        ``path`` that only this user can open. Raises OSError, ``E_CONFIG`` for a CA file."""
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            path.chmod(0o600)  # connect needs write permission on the socket file (unix(7))
            reply = self._ask(messages.Listen(service), messages.ListeningPort, bound)
            return ServicePort(reply.port, path)

    def open_bead(
        self,
        bead: str,
        models: Collection[str],
        *,
        budget_usd: float | None,
        budget_tokens: int | None = None,
    ) -> BeadTicket:
        """Let a bead use these models within its budget and the run's."""
        request = messages.OpenBead(bead, tuple(sorted(models)), budget_usd, budget_tokens)
        return self._ask(request, BeadTicket)

    def read_state(self, ticket: BeadTicket) -> messages.BeadState:
        """The state of a bead."""
        try:
            state = self._ask(messages.ReadState(ticket.placeholder), messages.BeadState)
        except GatewayGone:
            return messages.BeadState(UNKNOWN_USAGE, exhausted=False, unusable=GONE)
        return replace(state, unusable=make_printable(state.unusable))

    def close_bead(self, ticket: BeadTicket, wait_s: float = 0.0) -> Usage:
        """End a bead's requests, refuse later ones, and return what it has used.

        Unfinished answers get ``wait_s`` seconds; then their worst case is billed. Unknown if the
        gateway has ended.
        """
        # The gateway answers within a fraction of a second, so other requests need not wait for
        # this one.
        until, usage = time.monotonic() + wait_s, None
        report_at = time.monotonic() + QUIET_S
        while usage is None:
            left_s = max(until - time.monotonic(), 0.0)
            if report_at < time.monotonic() < until:
                report_at = until
                text = f"waiting for the end of an answer, {left_s:.0f} s at most"
                self._emit(Note(f"model gateway, {ticket.bead}: {text}"))
            request = messages.CloseBead(ticket.placeholder, left_s)
            try:
                usage = self._ask(request, messages.ClosedBead).usage
            except GatewayGone:
                return UNKNOWN_USAGE
        return usage

    def list_calls(self, ticket: BeadTicket) -> ToolUse | None:
        """The tools that the model called in a bead's answers; None if the gateway has ended."""
        calls: list[ToolCall] = []
        try:
            while True:
                request = messages.ListCalls(ticket.placeholder, len(calls))
                reply = self._ask(request, messages.SomeCalls)
                calls += map(_clean_call, reply.calls)
                if not reply.calls or len(calls) >= min(reply.count, MOST_CALLS):
                    return ToolUse("gateway", tuple(calls[:MOST_CALLS]), reply.more)
        except GatewayGone:
            return None

    def open_egress(self, bead: str) -> EgressTicket:
        """Let a bead use the proxy for ``policy.egress_hosts``."""
        return self._ask(messages.OpenEgress(bead), EgressTicket)

    def close_egress(self, ticket: EgressTicket) -> messages.EgressTraffic:
        """Cut a bead's connections, and return what went through them."""
        try:
            return self._ask(messages.CloseEgress(ticket.credential), messages.EgressTraffic)
        except GatewayGone:
            return messages.EgressTraffic()

    def close(self) -> None:
        """Close the control socket, which ends the process."""
        with self._lock:
            self._disconnect()

    def _ask(
        self,
        request: messages.ControlRequest,
        result_type: type[Result],
        attached: socket.socket | None = None,
    ) -> Result:
        """Send a request, and read its result. Signals are deferred, so that neither message is
        cut."""
        with defer_signals(), self._lock:
            reply = self._send_and_receive(request, attached)
            for text, warning in reply.notes:
                self._emit(Note(make_printable(text), warning))
            try:
                if not reply.code:
                    return make_record(result_type, reply.result)
                error = NightshiftError(Code(reply.code), make_printable(reply.error))
            except ValueError:  # not the process that we started
                self._disconnect()
                raise GatewayGone from None
        raise error

    def _send_and_receive(
        self, request: messages.ControlRequest, attached: socket.socket | None
    ) -> messages.GatewayReply:
        """Raises GatewayGone. After an interruption the socket is closed: the next answer could
        belong to an earlier request."""
        if not self._gone:
            try:
                messages.send_request(self._control, request, attached)
                return messages.receive_reply(self._control)
            except (EOFError, OSError, InvalidRecordError):
                self._disconnect()
            except BaseException:
                self._disconnect()
                raise
        raise GatewayGone

    def _disconnect(self) -> None:
        self._gone = True
        self._control.close()


def _clean_call(call: ToolCall) -> ToolCall:
    return ToolCall(
        clean_line(call.tool, LONGEST_ID),
        clean_line(call.subject, LONGEST_SUBJECT),
        call_id=clean_line(call.call_id, LONGEST_ID),
    )
