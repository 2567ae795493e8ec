"""The part of a repository's configuration that the process of work may see: how files are stored.

Only the listed keys are shown; all others (URLs with tokens, headers, credential helpers, includes)
stay hidden.
"""

import os
import re
from pathlib import Path

from gitlab_nightshift.repository.git import Git, GitError
from gitlab_nightshift.text.lazy_patterns import compile_lazily

_SHOWN = compile_lazily(
    r"""
      core\.(
          (?P<format>repositoryformatversion|bare|sharedrepository)       # core.bare
        # core.ignorecase
        | (?P<file_system>filemode|symlinks|ignorecase|precomposeunicode|longpaths)
        | (?P<line_ends>autocrlf|eol|safecrlf)                            # core.autocrlf
        # core.splitindex
        | (?P<index>sparsecheckout|sparsecheckoutcone|splitindex|bigfilethreshold)
        | (?P<rules>attributesfile|excludesfile)                          # core.excludesfile
      )
    # extensions.noop
    | (?P<extension>extensions\.(objectformat|partialclone|compatobjectformat|noop))
    | (?P<filter>filter\.[^\n]+\.(clean|smudge|process|required))         # filter.lfs.clean
    | (?P<partial>remote\.[^\n]+\.(promisor|partialclonefilter))          # remote.origin.promisor
    | (?P<newer>index\.(version|sparse)|feature\.manyfiles)               # index.version
    """,
    re.IGNORECASE | re.VERBOSE,
)


def read_visible_config(git: Git, checkout: Path) -> str:
    """A configuration file with only the listed keys; "" if git cannot read the repository's."""
    try:
        listed = git.run("config", "--local", "--includes", "--list", "-z", cwd=checkout)
    except GitError:
        return ""
    pairs = (text.partition("\n") for text in os.fsdecode(listed).split("\0"))
    return "".join(_format_setting(key, value) for key, _, value in pairs if _SHOWN.fullmatch(key))


def _format_setting(key: str, value: str) -> str:
    section, _, qualified_name = key.partition(".")
    subsection, _, name = qualified_name.rpartition(".")
    head = f'{section} "{_escape_value(subsection)}"' if subsection else section
    return f'[{head}]\n\t{name} = "{_escape_value(value)}"\n'


def _escape_value(text: str) -> str:
    # The escapes in a quoted value (git-config(1), "Syntax").
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
