"""Limits an answer's length at different endpoints: by the field that the client sent, by its other
name, or by counting the bytes of text.

vLLM refuses a request whose prompt and limit together exceed its context, older servers know only
one of the two names, and some know none.
"""

import re
from collections.abc import Collection

from gitlab_nightshift.gateway.limits import USUAL_OUTPUT, USUAL_TOKEN_BYTES
from gitlab_nightshift.gateway.shape import CheckedRequest
from gitlab_nightshift.text.lazy_patterns import compile_lazily

REFUSALS = (400, 422)
BY_BYTES = ""
"""Instead of a key: no field is sent, and the answer is cut after so many bytes."""
_UNKNOWN_FIELD = compile_lazily(
    r"unrecogni[sz]ed|unknown|unsupported|not (supported|permitted|allowed)|unexpected|extra_"
    r"|invalid (argument|parameter|field|key)",
    re.IGNORECASE,
)
_TOO_LARGE = compile_lazily(
    r"too (large|many|long)|maximum|exceed|context|at most|less than", re.IGNORECASE
)


class RefusedLimitError(Exception):
    """The endpoint refuses this key of an answer's limit, or its value."""


def list_limit_keys(
    question: CheckedRequest, path: str, refused: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """The keys to try for a request, in this order, without those that were ``refused``."""
    keys = (question.output_key, *question.other_keys)
    return tuple(key for key in keys if (path, key) not in refused) or (BY_BYTES,)


def choose_limit(question: CheckedRequest, key: str) -> int | None:
    """Tokens to ask for; None where the client wants no limit. A token has at least one byte, so
    that many bytes are no more tokens."""
    if key or not question.output_key:
        return question.max_output
    return (question.max_output or USUAL_OUTPUT) * USUAL_TOKEN_BYTES


def find_refused_keys(error: str, question: CheckedRequest, key: str) -> tuple[str, ...]:
    """The keys to which an endpoint's refusal refers; none if it is about something else.

    If the client chose a limit that is too large for its prompt, the client has to correct it.
    """
    if key and key in error and _UNKNOWN_FIELD.search(error):
        return (key,)
    if question.max_output is None and _TOO_LARGE.search(error):
        return tuple(k for k in (question.output_key, *question.other_keys) if k)
    return ()
