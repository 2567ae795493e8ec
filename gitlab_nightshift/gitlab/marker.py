"""How a merge request of this program is recognized: a hidden marker, its title, its idea."""

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
    """What the hidden comment at the end of a description says: ``idea`` is the fingerprint of the
    change, ``symbols`` the names of what it touches, ``digest`` stands for its very lines."""

    run_id: str
    category: str
    idea: str
    symbols: tuple[str, ...] = ()
    digest: str = ""


def write_marker(marker: Marker) -> str:
    """The comment. Symbols that do not fit are left out."""
    text = encode_for_comment(asdict(marker))
    if len(text) > LONGEST_JSON and marker.symbols:
        return write_marker(replace(marker, symbols=marker.symbols[:-1]))
    return f"<!-- nightshift: {text} -->"


def encode_for_comment(data: object) -> str:
    """JSON that cannot end an HTML comment early."""
    text = json.dumps(data)
    for mark in ("<", ">", "--"):
        text = text.replace(mark, "".join(f"\\u{ord(char):04x}" for char in mark))
    return text


def read_marker(description: str | None) -> Marker | None:
    """The last marker of a description, or None where there is none that can be read."""
    found = _MARKER.findall(description or "")
    try:
        data = json.loads(found[-1]) if found else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    texts = ("run_id", "category", "idea", "digest")
    run_id, category, idea, digest = (str(data.get(key, "")) for key in texts)
    symbols = data.get("symbols")
    names = [each for each in symbols if isinstance(each, str)] if isinstance(symbols, list) else ()
    return Marker(run_id, category, idea, tuple(names), digest)


def find_category(title: str, marker: Marker | None) -> str:
    """The category by marker, else by the title's ``[night-shift/<category>]``, else ""."""
    if marker and marker.category:
        return marker.category
    match = _TITLE.match(title)
    return match[1].lower() if match else ""


def compute_fingerprint(category: str, paths: Iterable[str], symbols: Iterable[str]) -> str:
    """16 hex digits for an idea: the kind of change, and the files and symbols that it touches. Of
    its words there is nothing: they are other ones each time."""
    parts = (category, "\n".join(sorted(set(paths))), "\n".join(sorted(set(symbols))))
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
