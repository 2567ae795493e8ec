"""How strong an assertion is, by its words: one table for the libraries of all languages."""

import re

from gitlab_nightshift.lazy_patterns import compile_lazily
from gitlab_nightshift.verdict.rule_tables import RuleTable

EXACT, CLOSE, PARTIAL, TYPE, TRUTHY, PRESENT, NOTHING = 6, 5, 4, 3, 2, 1, 0
"""Ranks, the strongest first: the value itself; nearly; a part, a size or a bound; its type; true,
different or called; there at all; nothing."""

_TABLE = RuleTable(__file__)
_NAMES = ("nothing", "present", "truthy", "type", "partial", "close", "exact")
RANKS = {word: rank for rank in range(EXACT, 0, -1) for word in _TABLE.get_words(_NAMES[rank])}

RAISES = _TABLE.get_words("raises")
BROAD = _TABLE.get_words("broad")
_PREFIX = compile_lazily(
    r"^(assert|refute|should|must|wont|expect|verify|to|is|be|have|has|was|are|do|does|only|that)"
)


def normalize_name(name: str) -> str:
    """``assert_equal``, ``assertEqual`` and ``AssertEqual!`` are one word."""
    return name.lower().replace("_", "").rstrip("!?").strip()


_ALIASES = {
    "nullvalue": "null",
    "emptystring": "empty",
    "emptycollection": "empty",
    "emptyiterable": "empty",
    "emptyarray": "empty",
}
"""Other names of words in the table."""


def parse_assertion_name(name: str) -> tuple[str, int | None, bool]:
    """Word, rank and whether it is negated of the name of a matcher or assertion.

    The rank is None where the word is not known, or where it is one for exceptions.
    """
    word, negated = normalize_name(name), False
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES:
            return word, None, negated
        if word in RANKS:
            return word, RANKS[word], negated
        if word.startswith(("not", "wont", "refute", "doesnot")):
            negated = not negated
            word = re.sub(r"^(doesnot|not|wont|refute)", "", word)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        if word.startswith(("wont", "refute")):
            negated = True
        word = shorter
    return word, None, negated


def rank_opposite(word: str, rank: int) -> int:
    """The rank of the opposite: 'not equal' says little, 'does not contain' a part."""
    if word in ("null", "none", "nil", "undefined", "defined", "exist", "present", "anything"):
        return PRESENT if word not in ("defined", "exist", "present") else EXACT
    if word in ("empty", "zero", "nan", "equal", "equals", "eq", "eql", "be", "same"):
        return TRUTHY
    if word in ("called", "beencalled", "hasbeencalled"):
        return EXACT
    return min(rank, PARTIAL) if rank > TRUTHY else TRUTHY
