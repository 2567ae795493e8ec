"""Any text made harmless for Discord: it pings nobody, links nowhere, hides nothing."""

import re
import unicodedata

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.printable_text import remove_hidden

MOST = 1900
"""Characters of a message, as Discord counts them; it takes 2000."""
CUT = "…"
REST = "The rest is in the artifacts: bundle/change.patch"
GAP = "\N{ZERO WIDTH SPACE}"
_MARKDOWN = compile_lazily(r"[\\*_~`|<>\[\]()#]")


def escape_text(text: str, most: int) -> str:
    """One line of at most ``most`` characters (before escaping), shown as what it is."""
    line = " ".join(_clean_text(text).split())
    line = line if len(line) <= most else line[: most - 1].rstrip() + CUT
    line = _MARKDOWN.sub(r"\\\g<0>", line)
    return line.replace("@", f"@{GAP}").replace("://", f":{GAP}//")


def format_code(text: str, most: int) -> str:
    """The same as inline code."""
    line = " ".join(_clean_text(text).split()).replace("`", "'")
    line = line if len(line) <= most else line[: most - 1].rstrip() + CUT
    return f"`{line.replace('@', f'@{GAP}') or ' '}`"


def format_diff(patch: str, most: int) -> str:
    """A patch as a block of code of about ``most`` characters; what is left out is said."""
    kept: list[str] = []
    lines = [_clean_text(line).replace("`", "'") for line in patch.rstrip().split("\n")]
    for line in lines:
        if sum(map(len, kept)) + len(kept) + len(line) > most:
            break
        kept.append(line.replace("@", f"@{GAP}"))
    rest = [REST] if len(kept) < len(lines) else []
    return "\n".join([*(["```diff", *kept, "```"] if kept else []), *rest])


def format_link(url: str, gitlab_url: str) -> str:
    """An address of this site (``https://host``) without a preview; another as plain text."""
    if re.fullmatch(r"https?://[\w./:~%+@=&?#-]+", url) and url.startswith(f"{gitlab_url}/"):
        return f"<{url}>"
    return escape_text(url, 200)


def format_message(lines: list[str]) -> str:
    """Lines as one message; those that do not fit are left out, which is said."""
    kept: list[str] = []
    for line in lines:
        if _measure_length([*kept, line, CUT]) > MOST:
            return "\n".join([*kept, CUT])
        kept.append(line)
    return "\n".join(kept)


def _measure_length(lines: list[str]) -> int:
    """UTF-16 units: what Discord's own clients count."""
    return len("\n".join(lines).encode("utf-16-le", "replace")) // 2


def _clean_text(text: str) -> str:
    """Without what hides or turns text round; line ends are spaces."""
    text = unicodedata.normalize("NFC", text)
    return remove_hidden(re.sub("[\t\n\r\v\f\x85\u2028\u2029]", " ", text))
