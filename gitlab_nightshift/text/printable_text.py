"""Text for people: untrusted text made safe to show, without terminal controls, hidden or
bidirectional characters; and shortened lists, counts and plurals.

For file names see ``system/file_names.py: format_path``, which is lossless.
"""

from collections.abc import Sequence

CONTROLS = (*range(9), *range(11, 32), *range(127, 160))
"""Code points of terminal controls, without line feed and tab."""
_LINE_ENDS = dict.fromkeys(map(ord, "\r\x0b\x0c\x85\u2028\u2029"), "\n")


def make_printable(text: str, replacement: str = " ", keep: str = "") -> str:
    """The text with ``replacement`` for each character that is neither printable nor in ``keep``:
    controls, line endings, invisible and bidirectional characters, all spaces but U+0020."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else replacement for c in text)


def unify_line_ends(text: str) -> str:
    """The text with ``\\n`` for all that ``str.splitlines`` or a Markdown renderer may take for the
    end of a line, and with spaces for tabs."""
    return text.replace("\r\n", "\n").translate(_LINE_ENDS).expandtabs(4)


def format_excerpt(text: str) -> str:
    """The beginning of a hostile text, such as a name, on one line of at most 80 characters."""
    clean = make_printable(text)
    return clean if len(clean) <= 80 else clean[:77] + "..."


def replace_controls(text: str, replacement: str) -> str:
    """The text with ``replacement`` for each terminal control; line feeds and tabs stay."""
    return text.translate(dict.fromkeys(CONTROLS, replacement))


def remove_hidden(text: str, keep: str = "") -> str:
    """The text without controls, format characters (bidirectional, zero-width, tags), surrogates,
    private-use characters and variation selectors, unless they are in ``keep``."""
    from unicodedata import category

    return "".join(c for c in text if c in keep or not _is_hidden(c, category(c)))


def _is_hidden(char: str, category: str) -> bool:
    # Variation selectors 17 to 256 (U+E0100 to U+E01EF) are marks to Unicode, and can hide a text.
    return category in ("Cc", "Cf", "Cs", "Co") or 0xE0100 <= ord(char) <= 0xE01EF


# --- lists and counts -----------------------------------------------------------------------------


def join_some(names: Sequence[str], most: int) -> str:
    """The first names, and how many others there are: ``a, b and 3 more``."""
    left_out = len(names) - most
    return ", ".join(names[:most]) + (f" and {left_out} more" if left_out > 0 else "")


def count_words(count: int, word: str) -> str:
    """``1 project``, ``3 projects``."""
    return f"{count:,} {word if count == 1 else f'{word}s'}"
