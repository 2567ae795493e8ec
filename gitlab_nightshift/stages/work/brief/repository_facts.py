"""What git knows about a commit, read by two commands however large the repository; and a
description of its folders by the sizes and languages of their files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gitlab_nightshift.repository.git import PLAIN_DIFF, GitError, split_names
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_listing import list_tree
from gitlab_nightshift.text.printable_text import count_words

MOST_COMMITS = 100
_MARK = "\1"
"""Begins a commit's record in git's output."""
_REGULAR = "100"
"""How the mode of a regular file begins: a link has 120000, a submodule 160000
(git-fast-import(1))."""


class TrackedFile(NamedTuple):
    """A regular file of the commit. ``size`` is in bytes, 0 if a partial clone lacks the file."""

    path: str
    size: int


@dataclass(frozen=True)
class PastCommit:
    """A commit of the main line, its time in seconds since 1970, the decoration that git prints,
    and the files that it changed against its first parent."""

    committed_at: float
    decoration: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class RepositoryFacts:
    """A commit's files; and the commit with those before it, newest first, at most
    ``MOST_COMMITS``. Without both if git fails."""

    files: tuple[TrackedFile, ...] = ()
    commits: tuple[PastCommit, ...] = ()

    @property
    def committed_at(self) -> float:
        """The commit's time in seconds since 1970."""
        return self.commits[0].committed_at if self.commits else 0.0

    @property
    def shallow(self) -> bool:
        """True if the last of the commits has parents that the clone lacks."""
        return bool(self.commits) and "grafted" in self.commits[-1].decoration


def read_repository_facts(repository: Repository, commit: str) -> RepositoryFacts:
    """Read the facts. Paths are as git stores them, with surrogate escapes. Raises GitError."""
    walk = ("-z", "--first-parent", "--diff-merges=first-parent", "--name-only", *PLAIN_DIFF)
    form = ("--decorate=short", f"--format={_MARK}%ct%x00%d%x00%s", f"--max-count={MOST_COMMITS}")
    # The oldest commit of a shallow clone would otherwise appear to add every file.
    settings = ("log.showRoot=false",)
    commits = tuple(_parse_log(repository.run("log", *walk, *form, commit, settings=settings)))
    return RepositoryFacts(tuple(_list_files(repository, commit)), commits)


def _list_files(repository: Repository, commit: str) -> Iterator[TrackedFile]:
    try:
        listed = list_tree(repository, commit)
    except GitError:  # a partial clone does not know sizes
        for entry in split_names(repository.run("ls-tree", "-r", "-z", "--full-tree", commit)):
            metadata, _, path = entry.partition("\t")
            if metadata.startswith(_REGULAR):
                yield TrackedFile(path, 0)
    else:
        for path, mode, size in listed.read_sizes():
            if mode.startswith(_REGULAR):
                yield TrackedFile(path, size)


def _parse_log(log: bytes) -> Iterator[PastCommit]:
    for record in log.decode("utf-8", "surrogateescape").split(_MARK)[1:]:
        fields = record.split("\0")
        if len(fields) > 3 and fields[0].isdecimal():  # else a file's name contains the mark
            # Even with -z git puts a line feed between a commit's format and its first file.
            files = (name.removeprefix("\n") for name in fields[3:])
            yield PastCommit(float(fields[0]), fields[1], fields[2], tuple(filter(None, files)))


MOST_FOLDERS = 24
_DEEPEST = 4
"""Levels of folders that are described; deeper ones count to their parents."""
_LARGE = 10_000
"""Bytes of the smallest file that is listed as large."""
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
_NOT_CODE = {"JSON", "Markdown", "XML", "YAML"}
"""Languages of data and documents, which are listed last."""


@dataclass
class _Folder:
    """The number, bytes and languages of all files below a folder, ``direct`` of those in it."""

    files: int = 0
    size: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    direct: int = 0


def describe_layout(files: Iterable[TrackedFile]) -> list[str]:
    """A line for the whole repository, then one for each of the chosen folders."""
    folders = _collect_folders(files)
    top = folders.pop("")
    lines = [f"all: {_describe(top)}"]
    if top.direct:
        lines.append(f"top folder itself: {count_words(top.direct, 'file')}")
    return lines + [f"{path}/: {_describe(folders[path])}" for path in _choose_folders(folders)]


def _collect_folders(files: Iterable[TrackedFile]) -> dict[str, _Folder]:
    folders: dict[str, _Folder] = defaultdict(_Folder)
    folders[""] = _Folder()
    for path, size in files:
        *parents, name = path.split("/", _DEEPEST)
        language = _find_language(name)
        for depth in range(len(parents) + 1):
            folder = folders["/".join(parents[:depth])]
            folder.files += 1
            folder.size += size
            if language:
                folder.languages[language] += 1
        folder.direct += 1  # the innermost
    return dict(folders)


def _find_language(path: str) -> str:
    """The language by the file's extension; "" if it is unknown."""
    return _LANGUAGES.get(path.rpartition(".")[2].lower(), "")


def _choose_folders(folders: dict[str, _Folder]) -> list[str]:
    """The folders to describe, sorted: those of the top level, and the deeper ones with the most
    files. A folder is left out for a subfolder that has all of its files."""
    ranked = sorted(folders, key=lambda path: (-folders[path].files, path))
    top = [path for path in ranked if "/" not in path][:MOST_FOLDERS]
    deeper = [path for path in ranked if "/" in path and folders[path].files > 1]
    chosen = {*top, *deeper[: MOST_FOLDERS - len(top)]}
    parents = ((path, path.rpartition("/")[0]) for path in chosen)
    redundant = {
        parent
        for path, parent in parents
        if parent and folders[parent].files == folders[path].files
    }
    return sorted(chosen - redundant)


def _describe(folder: _Folder) -> str:
    counts = folder.languages
    ranked = sorted(counts, key=lambda language: (language in _NOT_CODE, -counts[language]))
    languages = ", ".join(f"{language} {counts[language]}" for language in ranked[:4])
    size = format_size(folder.size)
    return ", ".join(filter(None, (count_words(folder.files, "file"), size, languages)))


def format_size(size: int) -> str:
    """Bytes for a person: ``812 B``, ``3 kB``, ``1.2 MB``; "" for none."""
    if size < 1000:
        return f"{size} B" if size else ""
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def list_largest(files: Iterable[TrackedFile], count: int) -> list[str]:
    """The largest files of programming languages, a line each."""
    large = [
        file
        for file in files
        if file.size >= _LARGE and _find_language(file.path) not in {"", *_NOT_CODE}
    ]
    ranked = sorted(large, key=lambda file: (-file.size, file.path))
    return [f"{file.path} ({format_size(file.size)})" for file in ranked[:count]]
