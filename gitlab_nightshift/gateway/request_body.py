"""An agent's request body: read strictly, checked against an allowlist, and rewritten without the
fields that the endpoint refuses.

An unknown key is dropped and reported. An unknown type of content or tool is refused, because the
request would mean something else without it.

Fields that the endpoint refuses are left out for the rest of the night. An answer is limited by the
field that the client sent, by its other name, or by counting bytes: OpenAI's newer models take only
``max_completion_tokens``, older servers only ``max_tokens``, some neither, and vLLM refuses a limit
that exceeds its context together with the prompt (vllm-project/vllm#42474).
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.gateway.limits import (
    BYTES_PER_TOKEN,
    FRAME_TOKENS,
    USUAL_OUTPUT,
    USUAL_TOKEN_BYTES,
    GatewayLimits,
)
from gitlab_nightshift.records.codec import InvalidRecordError, decode_record
from gitlab_nightshift.text.endpoint_answers import refuses_tools
from gitlab_nightshift.text.lazy_patterns import compile_lazily


class RequestRefusal(Exception):
    """A request that is not forwarded. The message goes to the agent and to the log."""

    def __init__(
        self, message: str, status: int = 400, kind: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind


def quote_text(text: object, longest: int = 80) -> str:
    """An agent's text, printable, quoted and shortened for a message."""
    shown = repr(str(text)[: longest + 1])
    return shown if len(shown) <= longest + 2 else f"{shown[:longest]}…'"


JsonObject = dict[str, Any]
Check = Callable[["RequestTraits", Any], Any]


@dataclass(frozen=True)
class InputTokens:
    """Tokens of a request's input: usually, and at most. With ``cache_1h`` they may be written into
    the cache for an hour, which costs more."""

    usual: int
    most: int
    cache_1h: bool = False


@dataclass
class RequestTraits:
    """What the checks note of a request: keys that were left out, the size of its images in bytes
    and in tokens, whether it may write into the cache for an hour."""

    dropped: set[str] = field(default_factory=set)
    image_bytes: int = 0
    image_tokens: int = 0
    cache_1h: bool = False


@dataclass
class CheckedRequest:
    """A request that passed: ``body`` is new and contains only known keys.

    ``output_key`` is the key of the answer's limit in tokens, "" if nothing is billed. If the
    endpoint refuses it, ``other_keys`` are tried; of other fields, those that it refuses are left
    out if they are ``optional``.
    """

    model: str
    body: JsonObject
    stream: bool
    output_key: str
    traits: RequestTraits = field(default_factory=RequestTraits)
    dropped: tuple[str, ...] = ()
    other_keys: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def estimate_input(self, size: int) -> InputTokens:
        """The tokens of the request's input, which arrived as ``size`` bytes."""
        # No tokenizer makes more tokens than bytes. Pictures cost tokens whatever their bytes.
        text_bytes = max(size - self.traits.image_bytes, 0)
        usual = text_bytes // BYTES_PER_TOKEN + 1 + self.traits.image_tokens
        most = text_bytes + FRAME_TOKENS + self.traits.image_tokens
        return InputTokens(usual, most, self.traits.cache_1h)

    @property
    def max_output(self) -> int | None:
        """The answer's limit in tokens, None if the client set none."""
        return self.body.get(self.output_key)


def read_object(raw: bytes, limits: GatewayLimits) -> JsonObject:
    """The object of a request body.

    Raises RequestRefusal for anything else, for what parsers may understand differently (a key that
    appears twice, NaN), for too many parts and too much depth.
    """
    # Before parsing: a million empty lists fit into 3 MB, but take far more memory as objects.
    if sum(raw.count(sign) for sign in b"{[,") > limits.body_parts:
        raise RequestRefusal("the request has too many parts", 413, "request_too_large")
    try:
        # Unlike json.loads, it refuses a key that appears twice (RFC 8259, 4).
        value = decode_record(JsonObject, raw)
    except InvalidRecordError as error:
        raise RequestRefusal(f"the request cannot be read: {error}") from None
    _check_depth(value, limits.body_depth)
    return value


def write_object(value: JsonObject) -> bytes:
    """The bytes to send: rewritten, so that what was checked is what is sent."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can express
        return json.dumps(value, separators=(",", ":")).encode()


def _check_depth(value: JsonObject, most: int) -> None:
    # Level by level: a recursion could exceed the stack although the parser's did not.
    level: list[Any] = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise RequestRefusal("the request is nested too deeply")


def check_fields(
    traits: RequestTraits, value: Any, where: str, checks: Mapping[str, Check]
) -> JsonObject:
    """An object with only the keys in ``checks``, each checked."""
    if not isinstance(value, dict):
        raise RequestRefusal(f"{where}: expected an object")
    for name in value:
        if name not in checks:
            traits.dropped.add(f"{where}.{name}"[:80])
    return {name: check(traits, value[name]) for name, check in checks.items() if name in value}


def allow_anything(traits: RequestTraits, value: Any) -> Any:
    """Any JSON: a tool's input, a schema."""
    return value


def check_scalar(traits: RequestTraits, value: Any) -> Any:
    """A text, a number, true, false or null."""
    if isinstance(value, dict | list):
        raise RequestRefusal("expected a text or a number, not an object or a list")
    return value


def check_text(traits: RequestTraits, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise RequestRefusal("expected a text")
    return value


def allow_one_of(*allowed: object) -> Check:
    """Any of these values."""

    def check(traits: RequestTraits, value: Any) -> Any:
        # By type, too: True equals 1.
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise RequestRefusal(
                f"{quote_text(value)} is not allowed; known are {', '.join(map(str, allowed))}"
            )
        return value

    return check


def allow_picture(tokens: int) -> Check:
    """The bytes of an image as text; it costs at most ``tokens``."""

    def check(traits: RequestTraits, value: Any) -> str:
        traits.image_tokens += tokens
        traits.image_bytes += len(check_text(traits, value))
        return str(value)

    return check


def allow_list_of(check: Check) -> Check:
    """A list of what ``check`` allows."""

    def check_items(traits: RequestTraits, value: Any) -> Any:
        if not isinstance(value, list):
            raise RequestRefusal("expected a list")
        return [check(traits, item) for item in value]

    return check_items


def allow_either(check_string: Check, check_other: Check) -> Check:
    """A string that ``check_string`` allows, or another value that ``check_other`` allows."""
    return lambda traits, value: (
        check_string(traits, value) if isinstance(value, str) else check_other(traits, value)
    )


def allow_null(check: Check) -> Check:
    """Null, or what ``check`` allows."""
    return lambda traits, value: None if value is None else check(traits, value)


def allow_record(where: str, **checks: Check) -> Check:
    """An object with these keys."""
    return lambda traits, value: check_fields(traits, value, where, checks)


def allow_tagged(where: str, kinds: Mapping[str, Mapping[str, Check]], default: str = "") -> Check:
    """An object of a known ``type``; ``default`` is the type of one that has none."""

    def check(traits: RequestTraits, value: Any) -> Any:
        if not isinstance(value, dict):
            raise RequestRefusal(f"{where}: expected an object")
        kind = value.get("type", default)
        if not isinstance(kind, str) or kind not in kinds:
            raise RequestRefusal(f"{where} of the type {quote_text(kind)} is not allowed")
        return check_fields(traits, value, where, {"type": check_text, **kinds[kind]})

    return check


def check_body(
    body: Mapping[str, Any],
    models: Collection[str],
    checks: Mapping[str, Check],
    *,
    output_key: str,
    server_side: Collection[str],
    silent: Collection[str] = (),
) -> CheckedRequest:
    """A request with the parts in ``checks``, for one of ``models``.

    ``server_side`` are keys by which the provider itself would act: they are refused. ``silent``
    are keys that are left out without a report. Raises :class:`RequestRefusal`.
    """
    model = _check_model(body, models)
    for name in server_side:
        if body.get(name):
            raise RequestRefusal(f"{name} is not allowed: agents have client-side tools only")
    _check_limit(body, output_key)
    traits = RequestTraits()
    checked = check_fields(traits, dict(body), "body", checks)
    dropped = tuple(sorted(traits.dropped.difference(silent)))
    stream = body.get("stream") is True and bool(output_key)
    return CheckedRequest(model, checked, stream, output_key, traits, dropped)


def _check_model(body: Mapping[str, Any], models: Collection[str]) -> str:
    """The model, which has to be one of the bead's."""
    model = body.get("model")
    if not isinstance(model, str) or model not in models:
        allowed = ", ".join(sorted(models))
        raise RequestRefusal(
            f"the model {quote_text(model)} is not allowed; this bead has {allowed}"
        )
    return model


def _check_limit(body: Mapping[str, Any], output_key: str) -> None:
    """Check that the answer's limit, if any, is a number of tokens."""
    limit = body.get(output_key)
    if limit is not None and (type(limit) is not int or not 1 <= limit <= 1_000_000):
        raise RequestRefusal(f"{output_key}: expected a number of tokens")


# --- fields that the endpoint refuses -------------------------------------------------------------

LIMIT_STATUSES, FIELD_STATUSES = (400, 422), (400, 404, 415, 422, 500, 501)
"""HTTP statuses by which servers refuse a limit, and any other field (llama.cpp: 500)."""
BY_BYTES = ""
"""Instead of a limit's key: none is sent, and the answer is cut off by counting its bytes."""
TOOLS = "tools"
"""Never left out: the agent itself has to ask in another way."""
MESSAGE_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "extra_content"})
"""Fields of messages that some servers require, and others refuse."""
_OTHER_NAMES = {"response_format": r"|json_schema|grammar|guided|structured.?output"}
"""Other names of a field in servers' errors, as alternatives of a pattern."""
_ECHO_KEYS = ("input", "ctx", "request")
"""Keys of an error under which FastAPI servers repeat the request."""
_UNKNOWN_FIELD = compile_lazily(
    r"unrecogni[sz]ed|unknown|unsupported|not (supported|permitted|allowed)|unexpected|extra_"
    r"|invalid (argument|parameter|field|key)",
    re.IGNORECASE,
)
_TOO_LARGE = compile_lazily(
    r"too (large|many|long)|maximum|exceed|context|at most|less than", re.IGNORECASE
)


class RefusedFieldError(Exception):
    """The endpoint refuses a field of the request, or the value of its limit."""


def choose_limit_key(
    checked: CheckedRequest, path: str, refused: Collection[tuple[str, str]]
) -> tuple[str, bool]:
    """The first key of an answer's limit that was not ``refused``; True if it is the last one."""
    keys = (checked.output_key, *checked.other_keys)
    untried = tuple(key for key in keys if (path, key) not in refused) or (BY_BYTES,)
    return untried[0], len(untried) == 1


def choose_limit(checked: CheckedRequest, key: str) -> int | None:
    """The limit to send, in tokens; None if the client sets none. For ``BY_BYTES`` the limit is in
    bytes, of which a token has at least one."""
    if key or not checked.output_key:
        return checked.max_output
    return (checked.max_output or USUAL_OUTPUT) * USUAL_TOKEN_BYTES


def remove_fields(body: JsonObject, names: Collection[str]) -> JsonObject:
    """The body without these fields, also in its messages and their calls."""
    kept = {name: value for name, value in body.items() if name not in names or name == TOOLS}
    message_fields = MESSAGE_FIELDS.intersection(names)
    if message_fields and "messages" in kept:
        kept["messages"] = _remove_below(kept["messages"], message_fields)
    return kept


def _remove_below(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_remove_below(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _remove_below(each, names) for key, each in value.items() if key not in names}


def find_refused_fields(
    status: int, error: str, checked: CheckedRequest, key: str
) -> tuple[str, ...]:
    """The fields that an endpoint's error refuses; none if it is about something else.

    A limit that the client itself chose too large is for the client to correct.
    """
    if status in LIMIT_STATUSES and key and key in error and _UNKNOWN_FIELD.search(error):
        return (key,)
    if status in LIMIT_STATUSES and key and checked.max_output is None and _TOO_LARGE.search(error):
        return tuple(filter(None, (checked.output_key, *checked.other_keys)))
    if status not in FIELD_STATUSES:
        return ()
    # Other fields are only looked for in the server's own words: it may repeat the whole request.
    message = " ".join(_list_texts(error))
    named = tuple(
        name
        for name in checked.optional
        if re.search(rf"\b{name}\b{_OTHER_NAMES.get(name, '')}", message, re.IGNORECASE)
    )
    if not named and TOOLS in checked.body and refuses_tools(message):
        return (TOOLS,)
    return named


def _list_texts(error: str) -> Iterator[str]:
    """The texts of an error, without the request that it repeats."""
    try:
        values = [json.loads(error)]
    except (ValueError, RecursionError):
        values = [error]
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            values += [each for name, each in value.items() if name not in _ECHO_KEYS]
        elif isinstance(value, str):
            yield value
