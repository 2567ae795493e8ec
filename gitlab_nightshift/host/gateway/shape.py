"""The small words of which the rules for request bodies are made: allow by name.

A key that no rule knows is left out, and told; a type of content or tool that no rule knows is
refused, since without it the request would mean something else.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.host.gateway.limits import BYTES_PER_TOKEN, FRAME_TOKENS
from gitlab_nightshift.host.gateway.refusal import Refusal, plain
from gitlab_nightshift.host.gateway.strict_json import JsonObject

Check = Callable[["Seen", Any], Any]


@dataclass(frozen=True)
class Input:
    """Tokens of a request's input: what such text usually has, and what it can have at most.
    ``hour``: it is written into the cache for an hour, which costs more."""

    usual: int
    most: int
    hour: bool = False


@dataclass
class Seen:
    """What was seen of a request on the way through its rules: keys that were left out, the size of
    its images in bytes and in tokens, whether it writes into the cache for an hour."""

    dropped: set[str] = field(default_factory=set)
    image_bytes: int = 0
    image_tokens: int = 0
    hour: bool = False


@dataclass
class Question:
    """A request that passed: ``body`` is new and holds only what a rule knows.

    ``output_key`` is the key of the answer's limit in tokens, "" where nothing is billed.
    """

    model: str
    body: JsonObject
    stream: bool
    output_key: str
    seen: Seen = field(default_factory=Seen)
    dropped: tuple[str, ...] = ()

    def input(self, size: int) -> Input:
        """Its input, of ``size`` bytes as they came.

        No tokenizer makes more tokens than bytes. What pictures cost has nothing to do with theirs.
        """
        text = max(size - self.seen.image_bytes, 0)
        usual = text // BYTES_PER_TOKEN + 1 + self.seen.image_tokens
        return Input(usual, text + FRAME_TOKENS + self.seen.image_tokens, self.seen.hour)

    @property
    def max_output(self) -> int | None:
        """The limit of the answer, in tokens; None where the client set none."""
        return self.body.get(self.output_key)


def fields(seen: Seen, value: Any, where: str, checks: Mapping[str, Check]) -> JsonObject:
    """An object with exactly the keys that ``checks`` knows, each checked."""
    if not isinstance(value, dict):
        raise Refusal(f"{where}: an object is expected")
    for name in value:
        if name not in checks:
            seen.dropped.add(f"{where}.{name}"[:80])
    return {name: check(seen, value[name]) for name, check in checks.items() if name in value}


def anything(seen: Seen, value: Any) -> Any:
    """Free JSON: the input of a tool, a schema."""
    return value


def scalar(seen: Seen, value: Any) -> Any:
    """A text, a number, true, false or null."""
    if isinstance(value, dict | list):
        raise Refusal("a text or a number is expected where a request has an object or a list")
    return value


def text(seen: Seen, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise Refusal("a text is expected where a request has something else")
    return value


def one_of(*known: object) -> Check:
    """One of these values."""

    def check(seen: Seen, value: Any) -> Any:
        if isinstance(value, dict | list) or not any(
            value == k and type(value) is type(k) for k in known
        ):
            raise Refusal(f"{plain(value)} is not allowed; known are {', '.join(map(str, known))}")
        return value

    return check


def picture(tokens: int) -> Check:
    """The bytes of an image, as text; it costs so many tokens at most."""

    def check(seen: Seen, value: Any) -> str:
        seen.image_tokens += tokens
        seen.image_bytes += len(text(seen, value))
        return str(value)

    return check


def list_of(check: Check) -> Check:
    """A list of what ``check`` takes."""

    def checked(seen: Seen, value: Any) -> Any:
        if not isinstance(value, list):
            raise Refusal("a list is expected where a request has something else")
        return [check(seen, item) for item in value]

    return checked


def either(check: Check, otherwise: Check) -> Check:
    """A text that ``check`` takes, or what ``otherwise`` takes."""
    return lambda seen, value: (check if isinstance(value, str) else otherwise)(seen, value)


def optional(check: Check) -> Check:
    """Null, or what ``check`` takes."""
    return lambda seen, value: None if value is None else check(seen, value)


def record(where: str, **checks: Check) -> Check:
    """An object with these keys."""
    return lambda seen, value: fields(seen, value, where, checks)


def tagged(where: str, kinds: Mapping[str, Mapping[str, Check]], usual: str = "") -> Check:
    """An object whose ``type`` is a known one; ``usual`` is the type of one without."""

    def check(seen: Seen, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Refusal(f"{where}: an object is expected")
        kind = value.get("type", usual)
        if not isinstance(kind, str) or kind not in kinds:
            raise Refusal(f"{where} of the type {plain(kind)} is not allowed")
        return fields(seen, value, where, {"type": text, **kinds[kind]})

    return check


def asked(
    body: Mapping[str, Any],
    models: Collection[str],
    checks: Mapping[str, Check],
    *,
    output_key: str,
    server_side: Collection[str],
    silent: Collection[str] = (),
) -> Question:
    """A request with the parts that ``checks`` knows, for one of ``models``.

    ``server_side`` are keys that would make the provider reach the network or a store: refused, and
    not only left out. ``silent`` are those that are left out without a word. Raises
    :class:`Refusal`.
    """
    model = _model_of(body, models)
    for name in server_side:
        if body.get(name):
            raise Refusal(f"{name} is not allowed: agents have client-side tools only")
    _check_limit(body, output_key)
    seen = Seen()
    made = fields(seen, dict(body), "body", checks)
    dropped = tuple(sorted(seen.dropped.difference(silent)))
    stream = body.get("stream") is True and bool(output_key)
    return Question(model, made, stream, output_key, seen, dropped)


def _model_of(body: Mapping[str, Any], models: Collection[str]) -> str:
    """The model, if it is one of the bead's."""
    model = body.get("model")
    if not isinstance(model, str) or model not in models:
        known = ", ".join(sorted(models))
        raise Refusal(f"the model {plain(model)} is not allowed; this bead has {known}")
    return model


def _check_limit(body: Mapping[str, Any], name: str) -> None:
    """The answer's limit is a whole number of tokens, where it is there."""
    limit = body.get(name)
    if limit is not None and (type(limit) is not int or not 1 <= limit <= 1_000_000):
        raise Refusal(f"{name}: a number of tokens is expected")
