"""Finds out whether an idea repeats one that people rejected, or one in an open merge request.

Ideas are compared by what they touch, not by their words: another model, or the same one tomorrow,
words the same idea differently.
"""

import re
from collections.abc import Iterable, Sequence

from gitlab_nightshift.records.bead_results import AnalysisCandidate
from gitlab_nightshift.records.products import KnownMergeRequest
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_NAMES = compile_lazily(
    r"""
      ` (?P<quoted>[A-Za-z_][\w.:]*) (?: \(\) )? `   # `Parser.parse()`
    | \b (?P<called>[a-z_]\w*) \( \)                 # parse_line()
    | \b (?P<underscored>[a-z]+ _ \w+) \b            # parse_line
    | \b (?P<camel_case>[a-z]+ [A-Z] \w*) \b         # parseLine
    """,
    re.VERBOSE,
)
_FILE = compile_lazily(r"\.(?:[a-z]{1,4}|scala|swift)$")  # parser.py


def find_repeated(
    category: str, candidate: AnalysisCandidate, known_ideas: Iterable[KnownMergeRequest]
) -> KnownMergeRequest | None:
    """The merge request that a candidate repeats: of the same category, in the same files and, if
    both name any, the same functions."""
    names = list_names(f"{candidate.description}\n{candidate.rationale}")
    return next((mr for mr in known_ideas if _repeats(mr, category, candidate.files, names)), None)


def find_repeated_change(
    category: str,
    files: Sequence[str],
    symbols: Sequence[str],
    digest: str,
    known_ideas: Iterable[KnownMergeRequest],
) -> KnownMergeRequest | None:
    """The merge request that a change repeats, by what it really touches, or by exactly the same
    lines (``digest``) in any category."""
    return next(
        (
            mr
            for mr in known_ideas
            if (digest and digest == mr.digest) or _repeats(mr, category, files, symbols)
        ),
        None,
    )


def _repeats(
    mr: KnownMergeRequest, category: str, files: Sequence[str], symbols: Iterable[str]
) -> bool:
    """True if a merge request of this category touches many of the same files, and a name in
    common if both have any."""
    ours, theirs = {*files}, {*mr.files}
    shared = len(ours & theirs)
    if mr.category != category or not shared:
        return False
    our_names, their_names = _split_names(symbols), _split_names(mr.symbols)
    if our_names and their_names:
        same = any(one <= other or other <= one for one in our_names for other in their_names)
        # At least half of the smaller side: an idea may name one file, its change has a test, too.
        return same and 2 * shared >= min(len(ours), len(theirs))
    # Without names only the files can be compared: at least a quarter of the larger side.
    return 4 * shared >= max(len(ours), len(theirs))


def _split_names(symbols: Iterable[str]) -> set[frozenset[str]]:
    """The words of each name without its class and "test": an idea's ``parse`` may become the
    change's ``TestParser.test_parse_empty``."""
    last = (re.split(r"[.:]+", name)[-1] for name in symbols)
    words = (re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name) for name in last)
    without_test = {frozenset(map(str.lower, each)) - {"test", "tests"} for each in words}
    return without_test - {frozenset()}


def list_names(text: str) -> tuple[str, ...]:
    """The words of an idea's text that look like names of functions or classes, not of files.

    >>> list_names("Cover `Parser.parse()` and read_line of parser.py")
    ('Parser.parse', 'read_line')
    """
    names = (next(filter(None, groups)) for groups in _NAMES.findall(text))
    return tuple(dict.fromkeys(name for name in names if not _FILE.search(name)))


def describe_repetition(mr: KnownMergeRequest) -> str:
    """One line: which merge request an idea repeats, and why that was rejected.

    >>> describe_repetition(KnownMergeRequest(7, "T", "", "docs", "b", day="2026-11-02"))
    'it repeats !7, closed without a merge on 2026-11-02, no reason given'
    """
    if not mr.day:
        return f"it repeats !{mr.iid}, which is open"
    why = "; ".join(mr.reasons) or "no reason given"
    return f"it repeats !{mr.iid}, closed without a merge on {mr.day}, {why}"
