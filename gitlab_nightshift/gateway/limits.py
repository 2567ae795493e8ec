"""Limits on the bytes and seconds that agents and model endpoints can make the gateway use. For
budgets see ``cost_account.py``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GatewayLimits:
    """Sizes in bytes, times in seconds.

    ``body_parts`` limits what a small body can become once it is parsed (a list of a million empty
    lists), ``held_bytes`` all request bodies in memory at a time. The retry times are for an
    overloaded endpoint, before the first byte of an answer. ``linger_s``: how long a connection may
    stay open after the closing mark of its answer. ``silent_s`` is for an endpoint that sends
    nothing, ``agent_stalled_s`` for an agent that reads nothing. ``metered_bytes`` limits a line of
    a stream, and an answer without a stream.
    """

    connections: int = 64
    idle_s: float = 60.0
    body_bytes: int = 32 * 1024 * 1024
    held_bytes: int = 64 * 1024 * 1024
    body_parts: int = 500_000
    body_depth: int = 64
    body_s: float = 60.0
    connect_s: float = 20.0
    silent_s: float = 600.0
    linger_s: float = 5.0
    agent_stalled_s: float = 120.0
    answer_bytes: int = 128 * 1024 * 1024
    metered_bytes: int = 16 * 1024 * 1024
    error_bytes: int = 64 * 1024
    retry_s: float = 240.0
    retry_first_s: float = 0.5
    retry_longest_s: float = 30.0
    stop_s: float = 0.5


NOTES_PER_BEAD = 50
"""Refusals that are reported of a bead: an agent can cause any number."""
LEAST_OUTPUT = 1024
"""Tokens: if the budget leaves less for an answer, its request is refused."""
USUAL_OUTPUT = 32_000
"""Tokens: the limit of an answer for which a client sets none, so that its cost is bounded."""
BYTES_PER_TOKEN = 2
"""A cautious estimate: text and code have three to four."""
USUAL_TOKEN_BYTES = 4
"""The usual bytes of an answer's token, which has at least one."""
FRAME_TOKENS = 1000
"""Tokens that a provider itself adds to a request: instructions for tools, markers."""
CLAUDE_IMAGE_TOKENS = 5000
"""More than an image costs at Anthropic, in its highest resolution."""
IMAGE_TOKENS = 50_000
"""More than an image costs in its highest detail at OpenAI, where small models count most."""
