"""Chooses what of a repository a model is shown, within a limit of tokens; the same for the same
input.

In this order: a listing of the tree, the selected files whole, files that the task names, then
their neighbours by folder, by name and by the identifiers that they share.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitlab_nightshift.patching.edits import Read, UnreadableFileError
from gitlab_nightshift.patching.file_listing import LARGEST_SHOWN, ListedFile, is_secret
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.text.lazy_patterns import compile_lazily

CONTEXT_TOKENS = 24_000
"""Of the repository; with the task and room for the answer this fits into a context of 32,768."""
LEAST_TOKENS = 2_000
CHARACTERS_PER_TOKEN = 3
"""Code has three to four characters for each token: an estimate that is rather too high."""
LISTING_PART = 6
"""The listing takes at most one sixth of the limit."""
MOST_COMPARED = 300
"""Neighbours whose identifiers are looked at: the nearest by folder and name."""
_WORD = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_PATH_LIKE = compile_lazily(r"[\w.+@-]+(?:/[\w.+@-]+)*")
_PARTS = compile_lazily(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_TOKENS = Redactor(())


class ContextTooSmallError(Exception):
    """The selected files do not fit into the limit; the text names the first that does not."""


@dataclass(frozen=True)
class ContextRequest:
    """What the files are for: ``text`` is the task; ``selected`` paths are shown in any case, those
    of ``first`` before all others."""

    text: str
    selected: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownFiles:
    """The tree in short, and whole files by path; ``tokens`` is an estimate of both."""

    listing: str
    files: dict[str, str]
    tokens: int


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many."""
    return len(text.encode("utf-8", "replace")) // CHARACTERS_PER_TOKEN + 1


def select_files(
    files: Sequence[ListedFile], wanted: ContextRequest, read: Read, limit: int
) -> ShownFiles:
    """The files to show within ``limit`` tokens. Raises :class:`ContextTooSmallError`."""
    listing = _format_listing([file.path for file in files], limit // LISTING_PART)
    choice = _FileSelection(read, limit - estimate_tokens(listing))
    there = {file.path: file.size for file in files}
    for path in wanted.selected:
        if not choice.add(path) and choice.read_text(path):
            raise ContextTooSmallError(f"{path} does not fit into {limit} tokens of context")
    small = [path for path, size in there.items() if size <= LARGEST_SHOWN]
    for path in (*wanted.first, *_find_named_files(small, wanted.text)):
        choice.add(path)
    seeds = tuple(choice.files) or _choose_start(small, there)
    for path in _rank_neighbours(seeds, small, choice.read_text):
        if there[path] // CHARACTERS_PER_TOKEN < choice.left:  # else not even read
            choice.add(path)
    return ShownFiles(listing, choice.files, limit - choice.left)


class _FileSelection:
    """The files taken so far, and the tokens that are left."""

    def __init__(self, read: Read, left: int) -> None:
        self._read, self.left = read, left
        self.files: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def add(self, path: str) -> bool:
        """Take a file, if it is text without a secret and fits."""
        if path in self.files:
            return True
        cost = estimate_tokens(text := self.read_text(path)) + estimate_tokens(path) + 8
        if not text or cost > self.left:
            return False
        self.files[path] = text
        self.left -= cost
        return True

    def read_text(self, path: str) -> str:
        """The text of a file, "" for what is not shown."""
        if path not in self._texts:
            self._texts[path] = _read_text(path, self._read)
        return self._texts[path]


def _read_text(path: str, read: Read) -> str:
    if is_secret(path):
        return ""
    try:
        data = read(path)
        text = data.decode() if data and b"\0" not in data else ""
    except (UnreadableFileError, UnicodeDecodeError):
        return ""
    return "" if _TOKENS.find_spans(text.encode()) else text


def _format_listing(paths: Sequence[str], limit: int) -> str:
    """All paths, or where they are too many, folders with the number of their files."""
    whole = "\n".join(paths)
    depth = max((path.count("/") for path in paths), default=0)
    while estimate_tokens(whole) > limit and depth:
        depth -= 1
        whole = "\n".join(_fold_paths(paths, depth))
    return whole if estimate_tokens(whole) <= limit else f"{len(paths)} files"


def _fold_paths(paths: Sequence[str], depth: int) -> Iterator[str]:
    """Paths up to a depth; a deeper folder is one line."""
    cut = [path if path.count("/") <= depth else _cut_path(path, depth) for path in paths]
    for name, count in Counter(cut).items():
        yield f"{name} ({count} files)" if name.endswith("/") else name


def _cut_path(path: str, depth: int) -> str:
    return "/".join(path.split("/")[: depth + 1]) + "/"


def _find_named_files(paths: Iterable[str], text: str) -> list[str]:
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


def _choose_start(paths: Sequence[str], sizes: dict[str, int]) -> tuple[str, ...]:
    """The file to start from where none is named: another one whenever the tree has changed."""
    state = "\n".join(f"{path} {sizes[path]}" for path in paths)
    return tuple(sorted(paths, key=lambda path: _hash(f"{path}\n{state}"))[:1]) if paths else ()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _rank_neighbours(
    seeds: Collection[str], paths: Iterable[str], text_of: Callable[[str], str]
) -> list[str]:
    """All files: the seeds, then the others, the most related first."""
    near = sorted(set(paths) - set(seeds), key=lambda path: (-_score_nearness(path, seeds), path))
    compared = near[:MOST_COMPARED]
    words = {path: set(_WORD.findall(text_of(path))) for path in compared}
    rare = Counter(word for found in words.values() for word in found)
    known = {word for seed in seeds for word in _WORD.findall(text_of(seed))}
    scores = {
        path: _score_nearness(path, seeds) + 10 * sum(1 / rare[word] for word in found & known)
        for path, found in words.items()
    }
    ranked = sorted(compared, key=lambda path: (-scores[path], path))
    return [*seeds, *ranked, *near[MOST_COMPARED:]]


def _score_nearness(path: str, seeds: Collection[str]) -> float:
    return max((_score_closeness(path, seed) for seed in seeds), default=0.0)


def _score_closeness(path: str, seed: str) -> float:
    """Folders in common, and words of the name in common (``test_cart.py`` and ``cart.py``)."""
    *folders, name = path.split("/")
    *others, other = seed.split("/")
    same = 0
    while same < min(len(folders), len(others)) and folders[same] == others[same]:
        same += 1
    apart = len(folders) + len(others) - 2 * same
    words = _split_words(name) & _split_words(other)
    return 3.0 * len(words) + 1.0 / (1 + apart)


def _split_words(name: str) -> set[str]:
    return {word.lower() for word in _PARTS.findall(name.partition(".")[0])} - {"test", "tests"}
