"""The data of ``nightshift init``: its arguments, the examined project, the new files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.onboarding.project_files import TriedCommand
from gitlab_nightshift.proof.implied_commands import RepositoryFiles
from gitlab_nightshift.repository.git import Git, GitError
from gitlab_nightshift.session import Session


@dataclass(frozen=True)
class InitRequest:
    """The arguments of ``init``.

    ``source`` is the project that holds gitlab-nightshift, "" for the default. ``gitlab``: set up
    the project in GitLab, too. ``merge_request``: as ``gitlab``, and propose the files in a merge
    request instead of writing them. ``model_key`` is the variable to store in GitLab as the model's
    key, "" for none. ``dashboard``: switch the dashboard on (the setting ``log_issue``); for None,
    ``ask`` gets the question and returns the user's yes or no. ``by_fleet``: a fleet starts the
    nights, and the project's own pipeline tries the tests, as this machine lacks what they need.
    """

    source: str = ""
    dry_run: bool = False
    gitlab: bool = False
    merge_request: bool = False
    model_key: str = ""
    dashboard: bool | None = None
    ask: Callable[[str], bool] = lambda _: False
    by_fleet: bool = False


@dataclass(frozen=True)
class NewFile:
    """A file's new text; ``before`` is the old one, None if there is no file."""

    name: str
    text: str
    before: str | None

    @property
    def is_changed(self) -> bool:
        """True if it has to be written."""
        return self.text != self.before


@dataclass
class ProjectExamination:
    """A project as ``init`` finds it, and its new files, the pipeline file last. ``source`` is the
    project of the include, ``versions`` are the include's before and after an upgrade,
    ``merged_config`` is the pipeline file with all includes, "" if GitLab did not show it, and
    ``to_do`` says what people have to do for the tests, "" for nothing."""

    session: Session
    request: InitRequest
    repository: RepositoryFiles
    source: str = ""
    versions: tuple[str, str] = ("", "")
    tried: tuple[TriedCommand, ...] = ()
    merged_config: str = ""
    to_do: str = ""
    files: list[NewFile] = field(default_factory=list)

    @property
    def branch(self) -> str:
        """The branch that nights start from: ``target_branch`` if it is set, else the default
        branch, else the checked-out one."""
        session = self.session
        return (
            session.settings.target_branch
            or session.job.default_branch
            or _read_branch(session.git, session.checkout, "refs/remotes/origin/HEAD")
            or _read_branch(session.git, session.checkout, "HEAD")
        )


def _read_branch(git: Git, checkout: Path, head: str) -> str:
    """The branch that a symbolic ref names, without ``origin/``; "" for none."""
    try:
        ref = git.run("symbolic-ref", "--quiet", head, cwd=checkout).decode().strip()
    except GitError:
        return ""
    return ref.removeprefix("refs/remotes/origin/").removeprefix("refs/heads/")


def format_line(name: str, text: str) -> str:
    """A line of output: a name in a column, then a text."""
    return f"{name:<12} {text}"
