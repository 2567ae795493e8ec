"""Open a run: the checkout, its settings, where events go, and where the results end up."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.events import Emit, Note, to_all
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.aside import own_places, places_of
from gitlab_nightshift.host.checkout import refuse_tracked
from gitlab_nightshift.host.environment import search_path
from gitlab_nightshift.host.git import Git, GitError
from gitlab_nightshift.host.installation import refuse_installation_in
from gitlab_nightshift.host.logs import Logs, logs_in
from gitlab_nightshift.host.openat import remove_tree
from gitlab_nightshift.host.paths import short_parent
from gitlab_nightshift.host.private import collect, own_folder
from gitlab_nightshift.host.repair import repair
from gitlab_nightshift.host.sandbox.credential_files import machine_values
from gitlab_nightshift.host.secrecy import close_to_others
from gitlab_nightshift.host.space import no_space
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.report.event_file import EventFile
from gitlab_nightshift.report.files import move_logs
from gitlab_nightshift.report.joblog import JobLog
from gitlab_nightshift.settings import (
    FILE_NAME,
    ConfigFile,
    Job,
    Secrets,
    Settings,
    load_settings,
    read_job,
    read_secrets,
)

_RESULTS, _EARLIER, _OUTPUT = "results", "earlier", "output"
"""In the private folder: results so far, those of earlier stages, and where they belong."""


@dataclass(frozen=True)
class Call:
    """How the command was called: environment, folder, and what the command line says."""

    env: Mapping[str, str]
    folder: Path
    config: str | None
    overrides: Mapping[str, str]
    colour: bool


@dataclass(frozen=True)
class Session:
    """An opened run. ``results`` is private until the end, then the checkout's output folder.

    ``git`` is pristine; ``machine_git`` knows this machine's identity and filters.
    """

    env: Mapping[str, str]
    folder: Path
    settings: Settings
    job: Job
    secrets: Secrets
    git: Git
    machine_git: Git
    checkout: Path
    config_folder: Path
    private: Path
    results: Path
    redact: Redactor
    emit: Emit

    @property
    def output(self) -> Path:
        """The output folder in the checkout."""
        return self.checkout / self.settings.output_dir

    @property
    def own_places(self) -> tuple[Path, ...]:
        """What no agent may see wherever it lies."""
        return own_places(Path(self.env.get("HOME", "/")), self.private, self.checkout)

    @property
    def logs(self) -> Logs:
        """Raw logs while the run goes on."""
        return logs_in(self.private, self.redact)


@contextlib.contextmanager
def opened(call: Call) -> Iterator[Session]:
    """A session in the checkout around ``call.folder``.

    First what killed runs left is repaired, and their results are recovered. On exit the results
    are placed in the checkout's output folder, also after an error. Raises
    :class:`NightshiftError` for what is wrong.
    """
    close_to_others()
    checkout = top_of(call.folder)
    refuse_installation_in(checkout)
    with own_folder(_parent(call.env), checkout) as private:
        _mend(checkout, call.env, private)
        git = git_verbs.pristine(private / "git", search_path(call.env, checkout))
        session = _session(call, checkout, private, git)
        refuse_tracked(git, checkout, session.settings.output_dir)
        with _set_aside(session):
            yield session


def mend_killed(env: Mapping[str, str]) -> bool:
    """Repair what a killed run left of the checkout around the current folder, and recover its
    results; True where there was something to repair. Raises NightshiftError."""
    checkout = top_of(Path.cwd())
    with own_folder(_parent(env), checkout) as private:
        return _mend(checkout, env, private)


def _parent(env: Mapping[str, str]) -> Path:
    return Path(env.get("TMPDIR") or tempfile.gettempdir())


def _mend(checkout: Path, env: Mapping[str, str], private: Path) -> bool:
    mended = repair(checkout, private=private, search_path=search_path(env, checkout))
    for place in {private.parent, short_parent(private.parent)}:
        collect(place, checkout, _recover)
    return mended


def top_of(folder: Path) -> Path:
    """The top of the checkout that ``folder`` lies in."""
    resolved = folder.resolve()
    spare = Path(tempfile.gettempdir())
    for place in (resolved, *resolved.parents):
        moved = place.name and any(path.exists() for path in places_of(place, spare))
        if os.path.lexists(place / ".git") or moved:
            return place
    raise config_error(f"{resolved} is in no git checkout: run in one")


def _session(call: Call, checkout: Path, private: Path, git: Git) -> Session:
    file, config_folder = config_file(call, checkout, git)
    settings = load_settings(call.env, file, call.overrides)
    results = private / _RESULTS
    results.mkdir()
    secrets = read_secrets(call.env)
    redact = Redactor((*secrets.values, *machine_values(call.env)))
    _refuse_secret_in_task(settings, redact)
    job = read_job(call.env, settings.repo_url)
    log = JobLog(sections=job.in_ci, colour=call.colour or job.in_ci, redact=redact)
    return Session(
        env=call.env,
        folder=call.folder,
        settings=settings,
        job=job,
        secrets=secrets,
        git=git,
        machine_git=git_verbs.with_machine_config(
            private / "machine-git",
            search_path(call.env, checkout),
            Path(call.env.get("HOME", "/")),
        ),
        checkout=checkout,
        config_folder=config_folder,
        private=private,
        results=results,
        redact=redact,
        emit=to_all((log, EventFile(results / "events.jsonl", redact))),
    )


def _refuse_secret_in_task(settings: Settings, redact: Redactor) -> None:
    """GitLab expands ``$NAME`` in the value of a variable: a task that is typed into the form would
    bring the token to the model."""
    task = settings.task or ""
    if redact(task) != task:
        raise config_error(
            "task: it holds a secret, perhaps by a $NAME that GitLab replaced: write $$NAME"
        )


def config_file(call: Call, checkout: Path, git: Git) -> tuple[ConfigFile | None, Path]:
    """The configuration as the base commit holds it, and the folder of its relative paths.

    A file that is not committed counts only where it is named, or outside CI.
    """
    path = (call.folder / call.config).resolve() if call.config else checkout / FILE_NAME
    text = _committed(git, checkout, path)
    if text is None and path.is_file():
        if not call.config and read_job(call.env).in_ci:
            raise config_error(f"{path} is not committed: commit it, or name it by --config")
        text = path.read_bytes()
    if text is None and call.config:
        raise config_error(f"--config: {path}: no such file")
    if text is None:
        return None, checkout
    try:
        return ConfigFile(path.name, text.decode("utf-8")), path.parent
    except UnicodeDecodeError as error:
        raise config_error(f"{path}: not UTF-8: {error}") from None


def _committed(git: Git, checkout: Path, path: Path) -> bytes | None:
    if not path.is_relative_to(checkout):
        return None
    try:
        return git_verbs.read_file(git, checkout, "HEAD", str(path.relative_to(checkout)))
    except GitError:  # no commit yet: a run says so itself
        return None


@contextlib.contextmanager
def _set_aside(session: Session) -> Iterator[None]:
    """Keep the output folder of an earlier stage away from agents; put all results there after.

    One that the runner has unpacked from artifacts may be another user's, who alone can remove it.
    """
    (session.private / _OUTPUT).write_bytes(os.fsencode(session.output))
    if session.output.is_dir() and not session.output.is_symlink():
        try:
            shutil.copytree(session.output, session.private / _EARLIER, symlinks=True)
        except OSError as error:
            raise config_error(f"{session.output} cannot be read: {error}") from None
        _remove(session.output)
    try:
        yield
    finally:
        _remove(session.output)
        try:
            _clear(session.output)
            _place(session.private, session.output)
        except OSError as error:
            text = f"the results are not in {session.output}, which cannot be written: {error}"
            session.emit(Note(text, warning=True))


def _clear(output: Path) -> None:
    """What cannot be removed is moved out of the way: that needs rights to the checkout alone."""
    if os.path.lexists(output):
        output.rename(output.with_name(f"{output.name}.earlier-{os.urandom(4).hex()}"))


def _place(private: Path, output: Path) -> None:
    """Put the results, with those of earlier stages, where nothing stands.

    Raises ``E_CONFIG`` where the disk there has no space for them, not even without raw logs.
    """
    results, earlier = private / _RESULTS, private / _EARLIER
    if earlier.exists():
        shutil.copytree(results, earlier, dirs_exist_ok=True)
    whole = earlier if earlier.exists() else results
    if not any(whole.iterdir()):
        return
    try:
        shutil.move(whole, output)
    except OSError:  # of another disk, as a rule; what could not be copied is not removed
        _remove(output)
        remove_tree(whole / "logs")
        try:
            shutil.move(whole, output)
        except OSError:
            _remove(output)
            raise no_space(output.parent) from None


def _recover(private: Path) -> None:
    """What a killed run had reached is put where it would have been, unless there is newer."""
    with contextlib.suppress(OSError):
        output = Path(os.fsdecode((private / _OUTPUT).read_bytes()))
        if not os.path.lexists(output):
            with contextlib.suppress(OSError):
                move_logs(private / "logs", private / _RESULTS / "logs")
            _place(private, output)


def product(session: Session, given: str | None, name: str) -> Path:
    """A product of an earlier stage: the path that was given, else ``name`` in the output folder.

    The output folder itself has been set aside. Raises ``E_CONFIG`` where there is none.
    """
    path = (session.folder / given).resolve() if given else session.output / name
    place = path
    if path.is_relative_to(session.output):
        place = session.private / _EARLIER / path.relative_to(session.output)
    if not place.exists():
        raise config_error(f"{path}: not there; it is the product of the stage before")
    return place


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)
