"""The messages between the gateway's process and its client, one at a time and each answered.

The two ends do not trust each other: work reads what agents wrote, and agents' requests reach the
gateway. So every message is a record of this module, read by the codec, of bounded size.
"""

import json
import socket
from dataclasses import dataclass, field
from typing import Annotated, Any

from gitlab_nightshift.records.codec import (
    Between,
    InvalidRecordError,
    Length,
    Pattern,
    decode_record,
    make_record,
    to_data,
)
from gitlab_nightshift.records.usage import MOST_CALLS, ToolCall, Usage

LONGEST_MESSAGE = 64 * 1024
"""Bytes."""
MOST_MODELS = 16
_LARGEST = 10**12
"""USD, tokens or seconds: more than any run has, but finite."""

Name = Annotated[str, Pattern(r"[!-~]{1,200}")]
Word = Annotated[str, Pattern(r"[!-~]{1,2000}")]
Text = Annotated[str, Length(2000)]
Count = Annotated[int, Between(0, 1 << 53)]
Amount = Annotated[float, Between(-_LARGEST, _LARGEST)]


class ControlRequest:
    """A request of the client; ``do`` in the message is the name of its class."""


@dataclass(frozen=True)
class Listen(ControlRequest):
    """Serve ``model`` or ``egress``, once, also on the UNIX socket attached to the message."""

    service: Name


@dataclass(frozen=True)
class OpenBead(ControlRequest):
    """Let a bead use these models; its budgets are in USD and tokens, None for no limit."""

    bead: Name
    models: Annotated[tuple[Name, ...], Length(MOST_MODELS, least=1)]
    budget_usd: Amount | None
    budget_tokens: Annotated[int, Between(-_LARGEST, _LARGEST)] | None


@dataclass(frozen=True)
class ReadState(ControlRequest):
    """Ask for a bead's state. Here and below, ``placeholder`` identifies the bead."""

    placeholder: Name


@dataclass(frozen=True)
class CloseBead(ControlRequest):
    """End a bead; unfinished answers get ``wait_s`` seconds."""

    placeholder: Name
    wait_s: Amount


@dataclass(frozen=True)
class ListCalls(ControlRequest):
    """Ask for some of a bead's tool calls, from number ``start`` on."""

    placeholder: Name
    start: Annotated[int, Between(0, MOST_CALLS)]


@dataclass(frozen=True)
class OpenEgress(ControlRequest):
    """Let a bead use the egress proxy."""

    bead: Name


@dataclass(frozen=True)
class CloseEgress(ControlRequest):
    """Cut a bead's connections through the proxy."""

    credential: Name


_REQUESTS = {kind.__name__: kind for kind in ControlRequest.__subclasses__()}


@dataclass(frozen=True)
class ListeningPort:
    """The port on loopback where a service listens."""

    port: Annotated[int, Between(1, 65535)]


@dataclass(frozen=True)
class BeadTicket:
    """The access of a bead's agent to the gateway; ``base_url`` has no ``/v1``."""

    bead: Word
    placeholder: Word = field(repr=False)
    base_url: Word


@dataclass(frozen=True)
class EgressTicket:
    """The access of a bead's tools to the egress proxy; ``url`` is their ``HTTPS_PROXY`` and
    ``HTTP_PROXY``."""

    bead: Word
    url: Word = field(repr=False)
    credential: Word = field(repr=False)


@dataclass(frozen=True)
class BeadState:
    """A bead's usage so far. ``exhausted``: a request exceeded its budget; ``unusable``: why the
    endpoint serves no bead any more, "" if it does."""

    usage: Usage
    exhausted: bool
    unusable: Text


@dataclass(frozen=True)
class ClosedBead:
    """A bead's final usage; None while an answer is unfinished: then the client asks again."""

    usage: Usage | None


@dataclass(frozen=True)
class SomeCalls:
    """Some of a bead's tool calls. ``count`` is the number of calls that the gateway has kept,
    ``more`` of those that it has only counted."""

    calls: tuple[ToolCall, ...]
    count: Count
    more: Count


@dataclass(frozen=True)
class EgressTraffic:
    """The hosts to which most was sent, with bytes sent and received; ``more`` counts others."""

    hosts: tuple[tuple[Word, Count, Count], ...] = ()
    more: Count = 0


@dataclass(frozen=True)
class GatewayReply:
    """An answer: its ``result``, or an error by its code. ``notes`` are texts for the log that have
    waited for an answer, each with True for a warning."""

    notes: tuple[tuple[Annotated[str, Length(2000, least=1)], bool], ...]
    result: Any = None
    code: Text = ""
    error: Text = ""


def send_request(
    link: socket.socket, request: ControlRequest, attached: socket.socket | None = None
) -> None:
    """Send a request. Raises OSError if the gateway is gone."""
    _send(link, {"do": type(request).__name__, **to_data(request)}, attached)


def send_reply(link: socket.socket, reply: GatewayReply) -> None:
    """Send an answer. Raises OSError if the client is gone or does not read."""
    _send(link, to_data(reply), None)


def receive_request(link: socket.socket) -> tuple[ControlRequest, socket.socket | None]:
    """The next request, and the socket that came with it. Raises EOFError at the end, OSError, and
    InvalidRecordError for what no honest client sends."""
    data, attached = _receive(link)
    try:
        message = decode_record(dict[str, Any], data)
        kind = _REQUESTS.get(str(message.pop("do", None)))
        has_socket = attached is not None  # only Listen comes with one
        if kind is None or has_socket != (kind is Listen):
            raise InvalidRecordError("it is no request")
        return make_record(kind, message), attached
    except BaseException:
        if attached:
            attached.close()
        raise


def receive_reply(link: socket.socket) -> GatewayReply:
    """The next answer. Raises EOFError at the end, InvalidRecordError, OSError."""
    return decode_record(GatewayReply, _receive(link)[0])


def _send(link: socket.socket, message: object, attached: socket.socket | None) -> None:
    # UTF-8 rather than escapes: so the longest calls and notes fit into a message in any script.
    text = json.dumps(message, ensure_ascii=False, allow_nan=False)
    data = text.encode("utf-8", "surrogatepass")
    socket.send_fds(link, [data], [attached.fileno()] if attached else [])


def _receive(link: socket.socket) -> tuple[bytes, socket.socket | None]:
    data, descriptors, flags, _ = socket.recv_fds(link, LONGEST_MESSAGE, 1)
    attached = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    # The kernel cuts a longer message, and drops more descriptors, without an error: recvmsg(2).
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise InvalidRecordError("it is too long")
    if not data:
        raise EOFError
    return data, next(iter(attached), None)
