"""``check --run``: the red flags of a commit, and what only running it can show."""

import dataclasses
import tempfile
from pathlib import Path

from gitlab_nightshift.desk.check import Asked, Judgement, check
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.events import Emit
from gitlab_nightshift.host import git as git_verbs
from gitlab_nightshift.host.environment import NETWORK, allowed, search_path
from gitlab_nightshift.host.logs import logs_in
from gitlab_nightshift.host.sandbox.credential_files import machine_values
from gitlab_nightshift.records import map_texts
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.settings import read_secrets
from gitlab_nightshift.verdict.test_commands import BuildFiles, implied_tests
from gitlab_nightshift.work.room import Site
from gitlab_nightshift.work.trial import try_commit


def check_and_run(asked: Asked, emit: Emit) -> Judgement:
    """Judge the commit that is checked out, then run it in the boundary of the work stage.

    Raises NightshiftError as ``check``; E_WORKSPACE_DIRTY where the change is not committed.
    """
    judgement = check(asked)
    with tempfile.TemporaryDirectory(prefix="nightshift-") as folder:
        return _with_runs(asked, judgement, Path(folder), emit)


def _with_runs(asked: Asked, judgement: Judgement, folder: Path, emit: Emit) -> Judgement:
    private = folder / "private"
    private.mkdir(mode=0o700)
    redact = Redactor((*read_secrets(asked.env).values, *machine_values(asked.env)))
    git = git_verbs.pristine(private / "git", search_path(asked.env, judgement.top))
    commit = git_verbs.head(git, judgement.top)
    if judgement.commit not in (None, commit) or _tree(git, judgement.top) != judgement.tree:
        text = "--run runs the commit that is checked out: commit the change, or check it out"
        raise NightshiftError(Code.WORKSPACE_DIRTY, text)
    settings = judgement.context.settings
    site = Site(
        settings=settings,
        env=allowed(asked.env, settings.agent_env),
        model_env={name: asked.env[name] for name in NETWORK if asked.env.get(name)},
        checkout=judgement.top,
        home=Path(asked.env.get("HOME", "/")),
        private=private,
        logs=logs_in(private, redact),
        run_id="check",
        places=(),
        left_s=lambda: settings.run_timeout,
        emit=emit,
    )
    commands = tuple(settings.verify_commands) or implied_tests(_build_files(git, site, commit))
    tried = try_commit(site, judgement.base, commit, judgement.context, commands)
    return dataclasses.replace(
        judgement,
        findings=(*judgement.findings, *map_texts(tried.findings, redact)),
        ran=True,
        commands=map_texts(tried.commands, redact),
        checks=map_texts(tried.checks, redact),
    )


def _tree(git: git_verbs.Git, top: Path) -> str:
    return git.run("rev-parse", "--verify", "HEAD^{tree}", cwd=top).decode().strip()


def _build_files(git: git_verbs.Git, site: Site, commit: str) -> BuildFiles:
    top = site.checkout
    return BuildFiles(
        files=git_verbs.tracked_files(git, top),
        read=lambda name: git_verbs.read_file(git, top, commit, name),
        is_there=lambda path: (top / path).exists(),
    )
