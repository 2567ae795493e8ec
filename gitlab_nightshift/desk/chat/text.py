"""Any text made harmless for Discord: it pings nobody, links nowhere, hides nothing."""

import re
import unicodedata

MOST = 1900
"""Characters of a message, as Discord counts them; it takes 2000."""
CUT = "…"
GAP = "\N{ZERO WIDTH SPACE}"
_MARKDOWN = re.compile(r"[\\*_~`|<>\[\]()#]")


def plain(text: str, most: int) -> str:
    """One line of at most ``most`` characters (before escaping), shown as what it is."""
    line = " ".join(_visible(text).split())
    line = line if len(line) <= most else line[: most - 1].rstrip() + CUT
    line = _MARKDOWN.sub(r"\\\g<0>", line)
    return line.replace("@", f"@{GAP}").replace("://", f":{GAP}//")


def code(text: str, most: int) -> str:
    """The same as inline code."""
    line = " ".join(_visible(text).split()).replace("`", "'")
    line = line if len(line) <= most else line[: most - 1].rstrip() + CUT
    return f"`{line.replace('@', f'@{GAP}') or ' '}`"


def link(url: str, site: str) -> str:
    """An address of this site (``https://host``) without a preview; another as plain text."""
    if re.fullmatch(r"https?://[\w./:~%+@=&?#-]+", url) and url.startswith(f"{site}/"):
        return f"<{url}>"
    return plain(url, 200)


def message(lines: list[str]) -> str:
    """Lines as one message; those that do not fit are left out, which is said."""
    kept: list[str] = []
    for line in lines:
        if _length([*kept, line, CUT]) > MOST:
            return "\n".join([*kept, CUT])
        kept.append(line)
    return "\n".join(kept)


def _length(lines: list[str]) -> int:
    """UTF-16 units: what Discord's own clients count."""
    return len("\n".join(lines).encode("utf-16-le", "replace")) // 2


def _visible(text: str) -> str:
    """Without what hides or turns text round; line ends are spaces."""
    text = unicodedata.normalize("NFC", text)
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    kind = unicodedata.category(char)
    if kind in ("Zl", "Zp") or char in "\t\n\r\v\f\x85":
        return " "
    if kind in ("Cc", "Cf", "Cs", "Co") or 0xE0100 <= ord(char) <= 0xE01EF:
        return ""
    return char
