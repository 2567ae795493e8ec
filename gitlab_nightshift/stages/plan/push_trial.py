"""Tries whether git can push from this machine, before anything is spent. GitLab's API cannot show
what git lacks here (its https helper, a certificate, a proxy), or that the server refuses git.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gitlab.api_error import ApiError, transient
from gitlab_nightshift.repository.git import Git, RepositoryPaths
from gitlab_nightshift.repository.private_repository import Repository, create_private_repository
from gitlab_nightshift.repository.remote import GitServer, Transfer, TransferStatus, push
from gitlab_nightshift.system.retry import Clock, RetryPolicy

PATIENCE_S = 20.0
"""Seconds to retry a server that does not answer."""


def try_push(
    git: Git,
    source: RepositoryPaths,
    server: GitServer,
    commit: str,
    branch: str,
    tell: Callable[[str], None],
) -> None:
    """Dry-run a push of the branch, which sends nothing.

    Raises NightshiftError: ``E_CONFIG`` if git cannot push from here, ``E_PUBLISH`` if the server
    does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="push-", dir=git.env["HOME"]) as folder:
        repository = create_private_repository(git, Path(folder) / "repository.git", source)
        done = _push_with_retries(repository, server, commit, branch, tell)
    if done.ok or done.answer is TransferStatus.NOT_FAST_FORWARD:
        return
    text = f"git cannot push to {server.url} from here, as publishing will: {done.message}"
    if done.answer is TransferStatus.NETWORK:
        raise NightshiftError(Code.PUBLISH, text)
    if done.answer is TransferStatus.AUTHENTICATION:
        text += ": GITLAB_TOKEN needs the role Developer and the scope write_repository or api"
    raise build_config_error(text)


def _push_with_retries(
    repository: Repository,
    server: GitServer,
    commit: str,
    branch: str,
    tell: Callable[[str], None],
) -> Transfer:
    last = Transfer(TransferStatus.NETWORK)

    def push_once() -> Transfer:
        nonlocal last
        last = push(repository, server, commit, branch, dry_run=True)
        if last.answer is TransferStatus.NETWORK:
            raise ApiError(last.message)
        return last

    clock = Clock()
    patience = RetryPolicy(clock.now() + PATIENCE_S, clock, tell=tell)
    try:
        return patience.call_with_retries(push_once, transient)
    except ApiError:
        return last
