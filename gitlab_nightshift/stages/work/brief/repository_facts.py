"""What git knows about a commit, read by two commands however large the repository; and a
description of its folders by the sizes and languages of their files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gitlab_nightshift.repository.git import PLAIN_DIFF, GitError, split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_tree

MOST_COMMITS = 100
_MARK = "\1"
"""Begins a commit's record in git's output."""
_FILE = "100"
"""How the mode of a regular file begins: a link has 120000, a submodule 160000
(git-fast-import(1))."""


class TrackedFile(NamedTuple):
    """A regular file of the commit. ``size`` is bytes, 0 if a partial clone lacks the file."""

    path: str
    size: int


@dataclass(frozen=True)
class PastCommit:
    """A commit of the main line, and the files that it changed against its first parent."""

    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class RepositoryFacts:
    """A commit's files, and the commits before it, newest first, ``MOST_COMMITS`` at most.

    ``committed_at`` is the commit's time in seconds since 1970. ``shallow``: the last of the
    commits has parents that the clone lacks.
    """

    files: tuple[TrackedFile, ...]
    commits: tuple[PastCommit, ...]
    committed_at: float
    shallow: bool


def read_repository_facts(repository: Repository, commit: str) -> RepositoryFacts:
    """Read the facts. Paths are as git stores them, with surrogate escapes. Raises GitError."""
    walk = ("-z", "--first-parent", "--diff-merges=first-parent", "--name-only", *PLAIN_DIFF)
    form = f"--format={_MARK}%ct%x00%d%x00%s"
    shown = (form, f"--max-count={MOST_COMMITS}", commit)
    # The oldest commit of a shallow clone would otherwise appear to add every file.
    settings = ("log.showRoot=false",)
    log = repository.run("log", *walk, "--decorate=short", *shown, settings=settings)
    rows = list(_parse_log(log))
    return RepositoryFacts(
        files=tuple(_list_files(repository, commit)),
        commits=tuple(PastCommit(subject, files) for _, _, subject, files in rows),
        committed_at=rows[0][0] if rows else 0.0,
        # Git decorates a commit whose parents a shallow clone lacks (%d) with "grafted".
        shallow=bool(rows) and "grafted" in rows[-1][1],
    )


def _list_files(repository: Repository, commit: str) -> Iterator[TrackedFile]:
    try:
        listed = list_tree(repository, commit)
    except GitError:  # a partial clone does not know sizes
        names = split_names(repository.run("ls-tree", "-r", "-z", "--full-tree", commit))
        rows = (name.partition("\t") for name in names)
        yield from (TrackedFile(path, 0) for row, _, path in rows if row.startswith(_FILE))
    else:
        for path, mode, size in listed.read_sizes():
            if mode.startswith(_FILE):
                yield TrackedFile(path, size)


def _parse_log(log: bytes) -> Iterator[tuple[float, str, str, tuple[str, ...]]]:
    """Time, decoration, subject and files of each commit."""
    for record in log.decode("utf-8", "surrogateescape").split(_MARK)[1:]:
        fields = record.split("\0")
        if len(fields) > 3 and fields[0].isdecimal():  # else a file's name contains the mark
            # Even with -z git puts a line feed between a commit's format and its first file.
            files = (name.removeprefix("\n") for name in fields[3:])
            yield float(fields[0]), fields[1], fields[2], tuple(filter(None, files))


MOST_FOLDERS = 24
_DEEPEST = 4
"""Levels of folders that are told apart."""
_LARGE = 10_000
"""Bytes; a smaller file is not listed as large."""
_LANGUAGES = {
    extension: language
    for language, extensions in {
        "C": "c h",
        "C#": "cs",
        "C++": "cc cpp cxx hh hpp",
        "CSS": "css less sass scss",
        "Clojure": "clj cljs",
        "Dart": "dart",
        "Elixir": "ex exs",
        "Go": "go",
        "HTML": "html htm jinja j2 erb",
        "Haskell": "hs",
        "JSON": "json",
        "Java": "java",
        "JavaScript": "js jsx cjs mjs",
        "Kotlin": "kt kts",
        "Markdown": "md rst adoc",
        "PHP": "php",
        "Perl": "pl pm",
        "Python": "py pyi",
        "R": "r",
        "Ruby": "rb rake",
        "Rust": "rs",
        "SQL": "sql",
        "Scala": "scala sc sbt",
        "Shell": "sh bash zsh",
        "Swift": "swift",
        "Terraform": "tf",
        "TypeScript": "ts tsx cts mts",
        "Vue": "vue",
        "XML": "xml",
        "YAML": "yaml yml",
    }.items()
    for extension in extensions.split()
}
_TEXT = {"JSON", "Markdown", "XML", "YAML"}
"""Languages in which nothing is programmed: they are listed last."""


@dataclass
class _Folder:
    """The number, size (bytes) and languages of the files in a folder and below it; ``direct``
    counts those in the folder itself."""

    files: int = 0
    size: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    direct: int = 0


def describe_layout(files: Iterable[TrackedFile]) -> list[str]:
    """A line for the whole, then one for each folder; the largest folders are split up first."""
    folders = _collect_folders(files)
    whole = folders.pop("")
    lines = [f"all: {_describe(whole)}"]
    if whole.direct:
        lines.append(f"top folder itself: {_count_files(whole.direct)}")
    return lines + [f"{path}/: {_describe(folders[path])}" for path in _choose_folders(folders)]


def _collect_folders(files: Iterable[TrackedFile]) -> dict[str, _Folder]:
    folders: dict[str, _Folder] = defaultdict(_Folder)
    folders[""] = _Folder()
    for path, size in files:
        *parents, name = path.split("/", _DEEPEST)
        language = _LANGUAGES.get(name.rpartition(".")[2].lower())
        holder = ""
        for depth in range(len(parents) + 1):
            holder = "/".join(parents[:depth])
            folder = folders[holder]
            folder.files += 1
            folder.size += size
            if language:
                folder.languages[language] += 1
        folders[holder].direct += 1
    return dict(folders)


def _choose_folders(folders: dict[str, _Folder]) -> list[str]:
    """The folders to show, in the order of their names: those of the top level, and of the others
    those with the most files. A folder whose files are all in one subfolder is left out for it."""
    ranked = sorted(folders, key=lambda path: (-folders[path].files, path))
    top = [path for path in ranked if "/" not in path][:MOST_FOLDERS]
    deeper = [path for path in ranked if "/" in path and folders[path].files > 1]
    chosen = {*top, *deeper[: MOST_FOLDERS - len(top)]}
    only = {
        parent
        for path in chosen
        if (parent := path.rpartition("/")[0]) and folders[parent].files == folders[path].files
    }
    return sorted(chosen - only)


def _describe(folder: _Folder) -> str:
    ranked = sorted(folder.languages.items(), key=lambda row: (row[0] in _TEXT, -row[1]))
    named = ", ".join(f"{language} {count}" for language, count in ranked[:4])
    return ", ".join(filter(None, (_count_files(folder.files), format_size(folder.size), named)))


def _count_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def format_size(size: int) -> str:
    """Bytes for a person: ``812 B``, ``3 kB``, ``1.2 MB``; "" for none."""
    if size < 1000:
        return f"{size} B" if size else ""
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def list_largest(files: Iterable[TrackedFile], count: int) -> list[str]:
    """The largest files of programming languages, a line each."""
    known = [
        file
        for file in files
        if file.size >= _LARGE
        and _LANGUAGES.get(file.path.rpartition(".")[2].lower(), "JSON") not in _TEXT
    ]
    ranked = sorted(known, key=lambda file: (-file.size, file.path))
    return [f"{file.path} ({format_size(file.size)})" for file in ranked[:count]]
