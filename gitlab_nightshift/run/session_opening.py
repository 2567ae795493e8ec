"""Opens a run's session from its checkout and settings, and places the results at the end."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, build_config_error
from gitlab_nightshift.job.job_facts import JobFacts, read_job
from gitlab_nightshift.job.job_secrets import read_secrets
from gitlab_nightshift.records.events import Emit, Note, combine_sinks
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.git import (
    Git,
    GitError,
    build_isolated_git,
    find_repository_paths,
    read_committed_file,
    read_origin,
    with_machine_config,
)
from gitlab_nightshift.repository.known_checkout import KnownCheckout
from gitlab_nightshift.repository.prepared_checkout import refuse_tracked
from gitlab_nightshift.run_folder import (
    Invocation,
    RunFolder,
    open_run_folder,
    place_results,
    read_output_path,
    set_aside,
)
from gitlab_nightshift.sandbox.credential_files import read_machine_secrets
from gitlab_nightshift.session import Session
from gitlab_nightshift.settings.config_file import FILE_NAME, ConfigFile
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import parse_project_address
from gitlab_nightshift.stages.report.event_file import EVENTS, EventFile
from gitlab_nightshift.stages.report.job_log import JobLog
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import path_exists, resolve_path
from gitlab_nightshift.system.network_settings import copy_certificates


@contextlib.contextmanager
def open_run(call: Invocation) -> Iterator[Session]:
    """Open a session in the checkout around ``call.folder``, with a new private folder, for a
    command that starts no other processes.

    On exit the results are moved to the checkout's output folder, also after an error. Raises
    NightshiftError.
    """
    with open_run_folder(call.env, call.folder) as run_folder:
        # The library requests reads these variables from os.environ.
        os.environ.update(copy_certificates(call.env, call.folder, run_folder.private))
        session = open_session(call, run_folder, read_machine_secrets(call.env), None)
        try:
            with show_output_paths(session):
                yield session
        finally:
            if text := place_results(run_folder, read_output_path(run_folder)):
                session.emit(Note(text, warning=True))


@contextlib.contextmanager
def open_without_results(call: Invocation) -> Iterator[Session]:
    """Open a session for a command that leaves no results: the output folder stays as it is."""
    with open_run_folder(call.env, call.folder) as run_folder:
        os.environ.update(copy_certificates(call.env, call.folder, run_folder.private))
        yield _read_session(call, run_folder, read_machine_secrets(call.env), None)


def open_session(
    call: Invocation, run_folder: RunFolder, machine: tuple[str, ...], emit: Emit | None
) -> Session:
    """Open a session in an open run folder, and set the checkout's output folder aside.

    ``machine`` are this machine's secrets, which are redacted like the job's. Events are passed to
    ``emit``; None stands for the job log and ``events.jsonl``.
    """
    session = _read_session(call, run_folder, machine, emit)
    set_aside(run_folder, session.output)
    return session


def _read_session(
    call: Invocation, run_folder: RunFolder, machine: tuple[str, ...], emit: Emit | None
) -> Session:
    """Build the session from environment, checkout and settings. Raises NightshiftError."""
    path = build_search_path(call.env, run_folder.checkout)
    git = build_isolated_git(run_folder.private / "git", path)
    home = Path(call.env.get("HOME", "/"))
    machine_git = with_machine_config(run_folder.private / "machine-git", path, home)
    file, config_folder = read_config_file(call, run_folder.checkout, git)
    settings = load_settings(call.env, file, call.overrides)
    secrets = read_secrets(call.env)
    redact = Redactor((*secrets.values, *machine))
    _refuse_secret_in_task(settings, redact)
    job = read_job(call.env, settings.repo_url, call.run_id)
    known_checkout = KnownCheckout(git, machine_git, run_folder.checkout)
    refuse_tracked(known_checkout.files, settings.output_dir)
    return Session(
        env=call.env,
        folder=call.folder,
        settings=settings,
        job=job,
        secrets=secrets,
        known_checkout=known_checkout,
        checkout=run_folder.checkout,
        config_folder=config_folder,
        private=run_folder.private,
        results=run_folder.results,
        redact=redact,
        emit=emit or _build_event_sink(call, run_folder, job, redact),
    )


def locate_project(session: Session) -> Session:
    """The session with the project of the remote ``origin``, if CI and settings name none."""
    if session.job.project_path:
        return session
    try:
        url = parse_project_address(read_origin(session.git, session.checkout))
    except ValueError:
        return session
    job = read_job(session.env, url.removesuffix(".git"), session.job.run_id)
    return replace(session, job=job)


def _build_event_sink(
    call: Invocation, run_folder: RunFolder, job: JobFacts, redact: Redactor
) -> Emit:
    log = JobLog(sections=job.in_ci, colour=call.colour or job.in_ci, redact=redact)
    return combine_sinks((log, EventFile(run_folder.results / EVENTS, redact, job.run_id)))


def _refuse_secret_in_task(settings: Settings, redact: Redactor) -> None:
    # GitLab expands $NAME in variables (gitlab-org/gitlab issue 17069): a task typed into the form
    # might send the token to the model.
    task = settings.task or ""
    if redact(task) != task:
        raise build_config_error(
            "task: it contains a secret, perhaps from a $NAME that GitLab expanded: write $$NAME"
        )


def read_config_file(call: Invocation, checkout: Path, git: Git) -> tuple[ConfigFile | None, Path]:
    """The committed configuration, and the folder that its paths are relative to. An uncommitted
    file is read only if ``--config`` names it, or outside CI."""
    path = resolve_path(call.folder / call.config) if call.config else checkout / FILE_NAME
    text = _read_committed_file(git, checkout, path)
    if text is not None:
        return _decode_config(path, text), path.parent
    if not call.config and path.is_file() and read_job(call.env).in_ci:
        raise build_config_error(f"{path} is not committed: commit it, or name it with --config")
    uncommitted = read_uncommitted_config(path)
    if uncommitted:
        return uncommitted, path.parent
    if call.config:
        raise build_config_error(f"--config: {path}: no such file")
    return None, checkout


def read_uncommitted_config(path: Path) -> ConfigFile | None:
    """The configuration in a file of the checkout, None without one. Raises ``E_CONFIG``."""
    if not (path_exists(path) and path.is_file()):
        return None
    try:
        return _decode_config(path, path.read_bytes())
    except OSError as error:
        raise build_config_error(f"{path}: cannot be read: {error.strerror}") from None


def _decode_config(path: Path, text: bytes) -> ConfigFile:
    try:
        return ConfigFile(path.name, text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise build_config_error(f"{path}: not UTF-8: {error}") from None


def _read_committed_file(git: Git, checkout: Path, path: Path) -> bytes | None:
    if not path.is_relative_to(checkout):
        return None
    try:
        return read_committed_file(git, checkout, "HEAD", str(path.relative_to(checkout)))
    except GitError:
        find_repository_paths(git, checkout)  # raises if this is not a checkout at all
        return None  # there is no commit yet, which is reported later


@contextlib.contextmanager
def show_output_paths(session: Session) -> Iterator[None]:
    """In errors, show the paths of earlier products before the output folder was set aside."""
    try:
        yield
    except NightshiftError as error:
        set_aside_path = str(RunFolder(session.checkout, session.private).earlier_output)
        text = error.message.replace(set_aside_path, str(session.output))
        raise NightshiftError(error.code, text) from None


def locate_product(session: Session, argument: str | None, name: str) -> Path:
    """The path of an earlier stage's product: the command line's ``argument``, or ``name`` in the
    output folder. If it is in that folder, which has been set aside, returns its current path.
    Raises ``E_CONFIG`` if it does not exist."""
    path = resolve_path(session.folder / argument) if argument else session.output / name
    current_path = path
    if path.is_relative_to(session.output):
        run_folder = RunFolder(session.checkout, session.private)
        current_path = run_folder.earlier_output / path.relative_to(session.output)
    if not path_exists(current_path):
        raise build_config_error(f"{path}: not there; it is the product of the stage before")
    return current_path
