"""Numbers of things in a sentence."""


def count_words(count: int, word: str) -> str:
    """``1 project``, ``3 projects``."""
    return f"{count:,} {pluralize(word, count)}"


def pluralize(word: str, count: int) -> str:
    """The word for so many."""
    return word if count == 1 else f"{word}s"
