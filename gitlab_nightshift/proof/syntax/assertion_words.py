"""The names of assertions and matchers: one table for the libraries of all languages."""

from gitlab_nightshift.proof.rule_tables import RuleTable
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_TABLE = RuleTable(__file__)
EQUAL = _TABLE.get_words("equal")
"""They demand an exact value."""
ALONE = _TABLE.get_words("alone")
"""They need no argument, and may be properties: ``.to.be.true``."""
WORDS = EQUAL | ALONE | _TABLE.get_words("others")
RAISES = _TABLE.get_words("raises")
_PREFIX = compile_lazily(
    r"^(assert|refute|should|must|wont|expect|verify|to|is|be|have|has|was|are|do|does|only|that)"
)
_NEGATIONS = ("doesnot", "not", "wont", "refute")
_ALIASES = {"nullvalue": "null"} | dict.fromkeys(
    ("emptystring", "emptycollection", "emptyiterable", "emptyarray"), "empty"
)


def normalize_name(name: str) -> str:
    """The same word for ``assert_equal``, ``assertEqual`` and ``AssertEqual!``."""
    return name.lower().replace("_", "").rstrip("!?").strip()


def parse_assertion_name(name: str) -> tuple[str, bool]:
    """The word of a matcher or assertion, and whether it is negated; for an unknown name, the rest
    without prefixes: ``to_not_be_nil`` → ``nil``, True."""
    word, negated = normalize_name(name), False
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES | WORDS:
            break
        if found := next(filter(word.startswith, _NEGATIONS), ""):
            negated, word = not negated, word.removeprefix(found)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        word = shorter
    return word, negated
