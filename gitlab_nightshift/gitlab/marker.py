"""How a merge request of this program is known again: a hidden marker, its title, its idea."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass

_MARKER = re.compile(r"<!-- nightshift: (\{[^<>]{0,2000}\}) -->")
_TITLE = re.compile(r"^(?:draft:\s*)?\[night-shift/([a-z0-9-]{1,40})\]", re.IGNORECASE)


@dataclass(frozen=True)
class Marker:
    """What the hidden comment at the end of a description says."""

    run_id: str
    category: str
    idea: str


def write_marker(marker: Marker) -> str:
    """The comment; its JSON cannot end the comment early."""
    text = json.dumps(asdict(marker))
    for mark in ("<", ">", "--"):
        text = text.replace(mark, "".join(f"\\u{ord(char):04x}" for char in mark))
    return f"<!-- nightshift: {text} -->"


def read_marker(description: str | None) -> Marker | None:
    """The last marker of a description, or None where there is none that can be read."""
    found = _MARKER.findall(description or "")
    try:
        data = json.loads(found[-1]) if found else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    run_id, category, idea = (str(data.get(key, "")) for key in ("run_id", "category", "idea"))
    return Marker(run_id, category, idea)


def category_of(title: str, marker: Marker | None) -> str:
    """The category by marker, else by the title's ``[night-shift/<category>]``, else ""."""
    if marker and marker.category:
        return marker.category
    match = _TITLE.match(title)
    return match[1].lower() if match else ""


def fingerprint(category: str, paths: Iterable[str], idea: str) -> str:
    """16 hex digits for an idea: category, sorted paths, and the idea's words in any order."""
    words = re.findall(r"\w{3,}", unicodedata.normalize("NFKC", idea).casefold())
    parts = (category, "\n".join(sorted(set(paths))), " ".join(sorted(set(words))))
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
