"""Texts of others made fit to be shown: nothing in them steers a terminal, hides or turns round.

Names of files are shown by ``system/file_names.py: format_path``, which loses nothing of them.
"""

CONTROLS = (*range(9), *range(11, 32), *range(127, 160))
"""Numbers of the characters that steer a terminal; line feeds and tabs are none of them."""


def make_printable(text: str, instead: str = " ", keep: str = "") -> str:
    """The text with ``instead`` for each character that is not printable: controls, line ends, all
    that is invisible or sets a direction, spaces but the plain one. Those in ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else instead for c in text)


def format_excerpt(text: str) -> str:
    """The text on one line and short: a name from a hostile file, to be put into a sentence."""
    clean = make_printable(text)
    return clean if len(clean) <= 80 else clean[:77] + "..."


def replace_controls(text: str, instead: str) -> str:
    """The text as it is, of several lines, with ``instead`` for what would steer a terminal."""
    return text.translate(dict.fromkeys(CONTROLS, instead))


def remove_hidden(text: str, keep: str = "") -> str:
    """The text, in any script, without controls, format characters (bidi, zero width, tags),
    surrogates, private use and selectors. Those in ``keep`` stay."""
    from unicodedata import category

    return "".join(c for c in text if c in keep or not _is_hidden(c, category(c)))


def _is_hidden(char: str, kind: str) -> bool:
    return kind in ("Cc", "Cf", "Cs", "Co") or 0xE0100 <= ord(char) <= 0xE01EF
