"""Git's errors about a repository that is broken, damaged or too new, and what to do about them."""

import contextlib
import re
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.repository.git_formats import list_object_folders
from gitlab_nightshift.text.lazy_patterns import compile_lazily

# Git's messages are English: it runs with LC_ALL=C (git.py). After these, no command works: the
# configuration or the index cannot be read, or git refuses the owner of the folder.
_BROKEN = compile_lazily(
    r"^fatal: (bad [a-z ]*config.*"
    r"|exceeded maximum include depth.*(?:\n\t.*)?"
    r"|index file corrupt|.*index file (?:open failed|smaller than expected).*"
    r"|detected dubious ownership.*)",
    re.MULTILINE,
)
# Messages about a repository format that this git does not know.
_NEWER = compile_lazily(
    r"^(?:fatal|warning): ((?:unknown repository extension|repo version is).*found:(?:\n\t.*)+"
    r"|expected git repo version.*)",
    re.MULTILINE | re.IGNORECASE,
)
_NO_REVISION = "Needed a single revision"
# The filter of a partial clone, in its configuration.
_FILTER = compile_lazily(r"^\s*partialclonefilter\s*=\s*([\w:.,=+-]{1,60})\s*$", re.M | re.I)
# Messages about an object that is missing or unreadable.
_DAMAGED = compile_lazily(
    r"""^(?:error|fatal):[ ](
        (?P<head>bad[ ]object[ ]HEAD)                                   # fatal: bad object HEAD
      | (?P<tree>bad[ ]tree[ ]object[ ].*|not[ ]a[ ]tree[ ]object)      # fatal: not a tree object
        # error: Could not read 0123456789012345678901234567890123456789
      | (?P<lost>Could[ ]not[ ]read[ ][0-9a-f]{40,}|unable[ ]to[ ]read[ ](tree[ ])?[0-9a-f]{40,})
        # error: object file .git/objects/ab/cd is empty
      | (?P<spoilt>object[ ]file[ ].*[ ]is[ ]empty|unable[ ]to[ ]unpack[ ].*)
      | (?P<stored>(loose|packed)[ ]object[ ].*|packfile[ ].*)          # error: packfile a is bad
      | (?P<asked>git[ ]cat-file[ ].*:[ ]bad[ ]file)          # fatal: git cat-file HEAD:a: bad file
        # fatal: could not fetch 0123456789012345678901234567890123456789 from promisor remote
      | (?P<filtered>could[ ]not[ ]fetch[ ][0-9a-f]{40,}[ ]from[ ]promisor[ ]remote)
    )""",
    re.MULTILINE | re.VERBOSE,
)


def refuse_broken_repository(stderr: bytes) -> None:
    """Raise ``E_CONFIG`` if a git command failed because of its configuration, its index or the
    folder's owner, or because this git does not know the repository's format (reftable)."""
    text = stderr.decode("utf-8", "replace")
    if match := _NEWER.search(text):
        why = " ".join(match[1].split())
        raise build_config_error(f"this repository needs a newer git: {why}: install one")
    if match := _BROKEN.search(text):
        why = " ".join(match[1].split())
        raise build_config_error(f"git cannot work here: {why}: repair that file, or clone anew")


def describe_damage(stderr: bytes, folder: Path) -> str:
    """The message if git could not read an object of a repository; "" for any other failure."""
    text = stderr.decode("utf-8", "replace")
    if match := _DAMAGED.search(text):
        return render_damage(match[1], folder)
    # If a partial clone lacks a tree, git may not name it.
    if _NO_REVISION in text and _find_partial_clone(folder):
        return render_damage(_NO_REVISION, folder)
    return ""


def render_damage(what: str, folder: Path) -> str:
    """The message for a damaged or missing object, which ``what`` names in a few words."""
    if not (clone := _find_partial_clone(folder)):
        return f"the git repository is damaged or lacks a part ({what}): clone it anew"
    return (
        f"{clone} lacks files or folders of this commit or an earlier one, and nothing is fetched"
        " here: clone without the filter (in CI it is in GIT_FETCH_EXTRA_FLAGS or"
        " GIT_CLONE_EXTRA_FLAGS), or have git fetch them before: git log -p -20 > /dev/null"
    )


def _find_partial_clone(folder: Path) -> str:
    """A description of a partial clone, "" for any other repository. A repository that borrows
    objects from a partial clone counts as one."""
    tops = (folder / ".git/objects", folder / "objects")
    objects = [path for top in tops if top.is_dir() for path in list_object_folders(top)]
    # A pack of a partial clone has a .promisor file (Documentation/technical/partial-clone).
    if not any(next(path.glob("pack/*.promisor"), None) for path in objects):
        return ""
    for path in objects:
        with contextlib.suppress(OSError):
            if match := _FILTER.search((path.parent / "config").read_text(errors="replace")):
                return f"this clone (--filter={match[1]})"
    return "this partial clone (--filter)"


def refuse_line_break(checkout: Path) -> None:
    """Raise ``E_CONFIG`` for a path with a line break: ``git rev-parse`` prints a path per line."""
    if "\n" in str(checkout):
        raise build_config_error(
            f"{str(checkout)!r}: a line break is in the path: move the checkout"
        )
