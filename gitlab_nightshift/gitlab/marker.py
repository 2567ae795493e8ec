"""Recognizes this program's merge requests, and equal ideas: by a hidden marker and the title."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from gitlab_nightshift.text.lazy_patterns import compile_lazily

LONGEST_JSON = 2000
"""Characters."""
_MARKER = compile_lazily(rf"<!-- nightshift: (\{{[^<>]{{0,{LONGEST_JSON}}}\}}) -->")
_TITLE = compile_lazily(r"^(?:draft:\s*)?\[night-shift/([a-z0-9-]{1,40})\]", re.IGNORECASE)


@dataclass(frozen=True)
class Marker:
    """The content of the hidden comment at the end of a description. ``idea`` is the fingerprint of
    the change, ``symbols`` the functions and classes that it touches, ``digest`` a hash of it."""

    run_id: str
    category: str
    idea: str
    symbols: tuple[str, ...] = ()
    digest: str = ""


def write_marker(marker: Marker) -> str:
    """The hidden comment, without the symbols that do not fit."""
    text = encode_for_comment(asdict(marker))
    if len(text) > LONGEST_JSON and marker.symbols:
        return write_marker(replace(marker, symbols=marker.symbols[:-1]))
    return f"<!-- nightshift: {text} -->"


def encode_for_comment(data: object) -> str:
    """JSON that cannot end an HTML comment early."""
    text = json.dumps(data)
    # Escapes of JSON: the reader gets the same data. The marker's pattern relies on no < and >.
    for characters in ("<", ">", "--"):
        text = text.replace(characters, "".join(f"\\u{ord(char):04x}" for char in characters))
    return text


def read_marker(description: str | None) -> Marker | None:
    """The last marker of a description; None if it has no valid one."""
    # The last one: text before it is an agent's, and may contain a marker.
    markers = _MARKER.findall(description or "")
    try:
        data = json.loads(markers[-1]) if markers else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    symbols = data.get("symbols")
    symbols = symbols if isinstance(symbols, list) else []
    return Marker(
        run_id=str(data.get("run_id", "")),
        category=str(data.get("category", "")),
        idea=str(data.get("idea", "")),
        symbols=tuple(symbol for symbol in symbols if isinstance(symbol, str)),
        digest=str(data.get("digest", "")),
    )


def find_category(title: str, marker: Marker | None) -> str:
    """The category in the marker, else in the title's ``[night-shift/<category>]``, else ""."""
    if marker and marker.category:
        return marker.category
    match = _TITLE.match(title)
    return match[1].lower() if match else ""


def compute_fingerprint(category: str, paths: Iterable[str], symbols: Iterable[str]) -> str:
    """16 hex digits for an idea, from its category and the files and symbols that it touches. Its
    text does not count: an agent words the same idea differently each time."""
    parts = (category, "\n".join(sorted(set(paths))), "\n".join(sorted(set(symbols))))
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
