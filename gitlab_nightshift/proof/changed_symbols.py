"""How a later night recognizes a change: by the functions and classes it touches, and its lines."""

import hashlib
from collections.abc import Iterator, Sequence

from gitlab_nightshift.proof.reviewed_change import Changeset
from gitlab_nightshift.proof.syntax.file_side import Side, read_sides
from gitlab_nightshift.repository.difference import Line


def list_changed_symbols(change: Changeset) -> tuple[str, ...]:
    """Qualified names of the innermost functions and classes touched, on both sides; none in an
    unsupported language."""
    found: list[str] = []
    for file in change.files:
        old, new = read_sides(file)
        found += [*_list_touched(old, file.deleted), *_list_touched(new, file.added)]
    return tuple(dict.fromkeys(found))


def compute_digest(change: Changeset) -> str:
    """16 hex digits for the added and deleted lines; "" without any. Neither white space nor the
    lines' order or numbers matter."""
    lines = sorted(
        f"{file.path}\0{sign}{' '.join(line.text.split())}"
        for file in change.files
        for sign, side in (("-", file.deleted), ("+", file.added))
        for line in side
        if line.text.strip()
    )
    text = "\n".join(lines).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16] if lines else ""


def _list_touched(side: Side, lines: Sequence[Line]) -> Iterator[str]:
    numbers = {line.number for line in lines if line.text.strip()}
    for function in side.functions:
        # A changed method is not a change of its class.
        inner = (other for other in side.functions if function in other.outer)
        own = set(range(function.line, function.end + 1)).difference(
            *(range(other.line, other.end + 1) for other in inner)
        )
        if own & numbers:
            yield function.qualified
