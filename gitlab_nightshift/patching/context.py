"""What of a repository a model is shown, within a limit of tokens; the same for the same input.

In this order: a listing of the tree, the selected files whole, files that the task names, then
their neighbours by folder, by name and by the identifiers that they share.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitlab_nightshift.patching.edits import Read, Unreadable
from gitlab_nightshift.patching.listing import LARGEST_SHOWN, Listed, is_secret
from gitlab_nightshift.redaction import Redactor

CONTEXT_TOKENS = 24_000
"""Of the repository; with the task and room for the answer this fits into a context of 32,768."""
LEAST_TOKENS = 2_000
CHARACTERS_PER_TOKEN = 3
"""Code has three to four characters for each token: an estimate that is rather too high."""
LISTING_PART = 6
"""The listing takes at most one sixth of the limit."""
MOST_COMPARED = 300
"""Neighbours whose identifiers are looked at: the nearest by folder and name."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_PATH_LIKE = re.compile(r"[\w.+@-]+(?:/[\w.+@-]+)*")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_TOKENS = Redactor(())


class TooSmall(Exception):
    """The selected files do not fit into the limit; the text names the first that does not."""


@dataclass(frozen=True)
class Wanted:
    """What the files are for: ``text`` is the task; ``selected`` paths are shown in any case, those
    of ``first`` before all others."""

    text: str
    selected: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """The tree in short, and whole files by path; ``tokens`` is an estimate of both."""

    listing: str
    files: dict[str, str]
    tokens: int


def tokens_of(text: str) -> int:
    """About how many tokens a text has, rather too many."""
    return len(text.encode("utf-8", "replace")) // CHARACTERS_PER_TOKEN + 1


def chosen(files: Sequence[Listed], wanted: Wanted, read: Read, limit: int) -> Shown:
    """The files to show within ``limit`` tokens. Raises :class:`TooSmall`."""
    listing = _listing([file.path for file in files], limit // LISTING_PART)
    choice = _Choice(read, limit - tokens_of(listing))
    there = {file.path: file.size for file in files}
    for path in wanted.selected:
        if not choice.add(path) and choice.text(path):
            raise TooSmall(f"{path} does not fit into {limit} tokens of context")
    small = [path for path, size in there.items() if size <= LARGEST_SHOWN]
    for path in (*wanted.first, *_named(small, wanted.text)):
        choice.add(path)
    seeds = tuple(choice.files) or _somewhere(small, there)
    for path in _neighbours(seeds, small, choice.text):
        if there[path] // CHARACTERS_PER_TOKEN < choice.left:  # else not even read
            choice.add(path)
    return Shown(listing, choice.files, limit - choice.left)


class _Choice:
    """The files taken so far, and the tokens that are left."""

    def __init__(self, read: Read, left: int) -> None:
        self._read, self.left = read, left
        self.files: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def add(self, path: str) -> bool:
        """Take a file, if it is text without a secret and fits."""
        if path in self.files:
            return True
        cost = tokens_of(text := self.text(path)) + tokens_of(path) + 8
        if not text or cost > self.left:
            return False
        self.files[path] = text
        self.left -= cost
        return True

    def text(self, path: str) -> str:
        """The text of a file, "" for what is not shown."""
        if path not in self._texts:
            self._texts[path] = _text(path, self._read)
        return self._texts[path]


def _text(path: str, read: Read) -> str:
    if is_secret(path):
        return ""
    try:
        data = read(path)
        text = data.decode() if data and b"\0" not in data else ""
    except (Unreadable, UnicodeDecodeError):
        return ""
    return "" if _TOKENS.spans(text.encode()) else text


def _listing(paths: Sequence[str], limit: int) -> str:
    """All paths, or where they are too many, folders with the number of their files."""
    whole = "\n".join(paths)
    depth = max((path.count("/") for path in paths), default=0)
    while tokens_of(whole) > limit and depth:
        depth -= 1
        whole = "\n".join(_folded(paths, depth))
    return whole if tokens_of(whole) <= limit else f"{len(paths)} files"


def _folded(paths: Sequence[str], depth: int) -> Iterator[str]:
    """Paths up to a depth; a deeper folder is one line."""
    cut = [path if path.count("/") <= depth else _top(path, depth) for path in paths]
    for name, count in Counter(cut).items():
        yield f"{name} ({count} files)" if name.endswith("/") else name


def _top(path: str, depth: int) -> str:
    return "/".join(path.split("/")[: depth + 1]) + "/"


def _named(paths: Iterable[str], text: str) -> list[str]:
    """Files that a text names: by path first, then by their last name."""
    words = {word.strip(".") for word in _PATH_LIKE.findall(text)} | set(_PATH_LIKE.findall(text))
    by_path, by_name = list[str](), list[str]()
    for path in paths:
        name = path.rpartition("/")[2]
        stem = name.partition(".")[0]
        if path in words and "/" in path:
            by_path.append(path)
        elif name in words or (stem.isupper() and stem in words):
            by_name.append(path)
    return by_path + by_name


def _somewhere(paths: Sequence[str], sizes: dict[str, int]) -> tuple[str, ...]:
    """A place to start from where nothing is named: another one whenever the tree has changed."""
    state = "\n".join(f"{path} {sizes[path]}" for path in paths)
    return tuple(sorted(paths, key=lambda path: _hash(f"{path}\n{state}"))[:1]) if paths else ()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _neighbours(
    seeds: Collection[str], paths: Iterable[str], text_of: Callable[[str], str]
) -> list[str]:
    """All other files, those that belong most to the seeds first; the seeds before them."""
    near = sorted(set(paths) - set(seeds), key=lambda path: (-_nearness(path, seeds), path))
    compared = near[:MOST_COMPARED]
    words = {path: set(_WORD.findall(text_of(path))) for path in compared}
    rare = Counter(word for found in words.values() for word in found)
    known = {word for seed in seeds for word in _WORD.findall(text_of(seed))}
    scores = {
        path: _nearness(path, seeds) + 10 * sum(1 / rare[word] for word in found & known)
        for path, found in words.items()
    }
    ranked = sorted(compared, key=lambda path: (-scores[path], path))
    return [*seeds, *ranked, *near[MOST_COMPARED:]]


def _nearness(path: str, seeds: Collection[str]) -> float:
    return max((_closeness(path, seed) for seed in seeds), default=0.0)


def _closeness(path: str, seed: str) -> float:
    """Folders in common, and words of the name in common (``test_cart.py`` and ``cart.py``)."""
    *folders, name = path.split("/")
    *others, other = seed.split("/")
    same = 0
    while same < min(len(folders), len(others)) and folders[same] == others[same]:
        same += 1
    apart = len(folders) + len(others) - 2 * same
    words = _words(name) & _words(other)
    return 3.0 * len(words) + 1.0 / (1 + apart)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _PARTS.findall(name.partition(".")[0])} - {"test", "tests"}
