"""Who owns the changed files by CODEOWNERS, by GitLab's rules for that file.

https://docs.gitlab.com/user/project/codeowners/reference/
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_SECTION = compile_lazily(r"\^?\[([^\]]+)\](?:\[\d+\])?((?:\s+\S+)*)\s*")
_ENTRY = compile_lazily(r"((?:\\.|[^\s\\])+)((?:\s+\S+)*)\s*")
_OWNER = compile_lazily(r"@@?[\w./-]+")
_PART = compile_lazily(r"\*\*/|\*\*|\*|\?|\\.|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass
class _OwnerSection:
    """A section: its default owners, and its entries in the order of the file."""

    owners: tuple[str, ...] = ()
    entries: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def find_owners(text: str, files: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The owners of these files, each set of them once: of every section the last entry that
    matches a file. They are ``@name``, ``@group/path`` or ``@@role``; mail addresses are left out.
    """
    sections = tuple(_read_sections(text).values())
    found = (_find_in_section(section, file) for file in files for section in sections)
    return tuple(dict.fromkeys(owners for owners in found if owners))


def _read_sections(text: str) -> dict[str, _OwnerSection]:
    """The sections by their names, which may come again in another case."""
    sections = {"": _OwnerSection()}
    current = sections[""]
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if head := _SECTION.fullmatch(line):
            current = sections.setdefault(head[1].strip().lower(), _OwnerSection())
            current.owners = _read_owners(head[2]) or current.owners
        elif entry := _ENTRY.fullmatch(line):
            current.entries.append((entry[1], _read_owners(entry[2]) or current.owners))
    return sections


def _read_owners(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split() if _OWNER.fullmatch(word)))


def _find_in_section(section: _OwnerSection, file: str) -> tuple[str, ...]:
    """The owners by the last matching entry; none if an entry with ``!`` excludes the file."""
    owners: tuple[str, ...] = ()
    for pattern, its in section.entries:
        if not _matches(pattern.removeprefix("!"), file):
            continue
        if pattern.startswith("!"):
            return ()
        owners = its
    return owners


def _matches(pattern: str, file: str) -> bool:
    """Translate a pattern: without a leading slash it matches at any depth, with a trailing slash
    the content of a folder; ``*`` does not cross folders."""
    anchored = pattern if pattern.startswith("/") else f"/**/{pattern}"
    whole = f"{anchored}**" if anchored.endswith("/") else anchored
    parts = (_WILD.get(part) or re.escape(part.removeprefix("\\")) for part in _PART.findall(whole))
    return re.fullmatch("".join(parts), f"/{file}") is not None
