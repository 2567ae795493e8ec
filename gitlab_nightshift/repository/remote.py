"""Pushes to and fetches from GitLab; an askpass script that checks the host provides the token.

The token is in no argument or file, only in the environment of the git command that needs it. The
script prints it only if git asks for the expected server.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.system.network_settings import NETWORK
from gitlab_nightshift.system.retry import RemoteFailure, RetryPolicy
from gitlab_nightshift.text.printable_text import make_printable

TOKEN_VARIABLE = "NIGHTSHIFT_ASKPASS_TOKEN"  # noqa: S105
TRANSFER_S = 600.0  # seconds of one push or fetch
MESSAGE_LENGTH = 500  # characters
_SETTINGS = (
    "core.askPass=",
    "credential.helper=",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=120",
    "push.followTags=false",
    "push.gpgSign=false",
)
"""Ask no credential helper of this machine, follow no redirect with the token, and give up a
transfer of less than a byte a second for two minutes."""


class TransferStatus(StrEnum):
    """How a server answered a push or a fetch."""

    OK = "ok"
    PROTECTED_BRANCH = "protected_branch"
    NOT_FAST_FORWARD = "not_fast_forward"
    AUTHENTICATION = "authentication"
    NETWORK = "network"
    REJECTED = "rejected"


@dataclass(frozen=True)
class GitServer:
    """A server: the http(s) URL of a repository, without credentials, and the token for it.

    Git gets only the variables of ``env`` for proxies and certificates.
    """

    url: str
    token: str = field(repr=False)
    username: str = "oauth2"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Transfer:
    """The result of pushing or fetching ``commit``; ``message`` is a line without credentials."""

    status: TransferStatus
    message: str = ""
    commit: str = ""

    @property
    def ok(self) -> bool:
        """True if the push or fetch succeeded."""
        return self.status is TransferStatus.OK


def push(
    repository: Repository, server: GitServer, commit: str, branch: str, *, dry_run: bool = False
) -> Transfer:
    """Push a commit as a branch, never by force; a ``dry_run`` asks the server but sends nothing.
    Raises NightshiftError E_CONFIG for a bad URL."""
    refspec = f"{commit}:refs/heads/{branch}"
    options = ["--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no"]
    options += ["--dry-run"] if dry_run else []
    return _transfer(repository, server, "push", (*options, server.url, refspec), commit)


def fetch(repository: Repository, server: GitServer, branch: str, depth: int = 1) -> Transfer:
    """Fetch a branch's last ``depth`` commits; the result's ``commit`` is its tip."""
    return fetch_ref(repository, server, f"refs/heads/{branch}", depth)


def fetch_ref(repository: Repository, server: GitServer, ref: str, depth: int) -> Transfer:
    """Fetch the last ``depth`` commits of any ref, given by its full name, such as ``HEAD``."""
    refspec = f"+{ref}:refs/nightshift/fetched"
    options = ("--no-tags", f"--depth={depth}", "--no-write-fetch-head", "--no-recurse-submodules")
    transfer = _transfer(repository, server, "fetch", (*options, server.url, refspec), "")
    if not transfer.ok:
        return transfer
    tip = repository.run("rev-parse", "--verify", "refs/nightshift/fetched^{commit}")
    return Transfer(TransferStatus.OK, commit=tip.decode().strip())


def retry_transfer(transfer: Callable[[], Transfer], policy: RetryPolicy) -> Transfer:
    """The result of a push or fetch, repeated while the network fails."""

    def transfer_once() -> Transfer:
        result = transfer()
        if result.status is TransferStatus.NETWORK:
            raise RemoteFailure(result.message)
        return result

    try:
        return policy.call_with_retries(transfer_once, lambda _: True)
    except RemoteFailure as error:
        return Transfer(TransferStatus.NETWORK, str(error))


def _transfer(
    repository: Repository, server: GitServer, verb: str, args: tuple[str, ...], commit: str
) -> Transfer:
    scheme = _parse_scheme(server.url)
    with _prepare_askpass(repository.folder, server) as env:
        try:
            # By default git may use no protocol (git.py).
            repository.git.run(
                verb,
                *args,
                cwd=repository.folder,
                env={"GIT_DIR": str(repository.folder), "GIT_ALLOW_PROTOCOL": scheme, **env},
                settings=_SETTINGS,
                timeout_s=TRANSFER_S,
            )
        except GitError as error:
            return _parse_refusal(error, server)
    return Transfer(TransferStatus.OK, commit=commit)


def _parse_scheme(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise build_config_error("the project's URL must be http(s)://host/… without credentials")
    return parts.scheme


@contextmanager
def _prepare_askpass(folder: Path, server: GitServer) -> Iterator[dict[str, str]]:
    """The environment in which git gets the token from an askpass script, only for this server."""
    parts = urlsplit(server.url)
    username_prompt = f"Username for '{parts.scheme}://{parts.netloc}': "
    password_prompt = f"Password for '{parts.scheme}://{quote(server.username)}@{parts.netloc}': "
    with TemporaryDirectory(prefix="askpass-", dir=folder) as private:
        # The prompt names the server that asks (git's credential.c: credential_describe).
        script = Path(private) / "askpass"
        script.touch(0o700)
        script.write_text(
            "#!/bin/sh\ncase $1 in\n"
            f"{shlex.quote(username_prompt)}) printf '%s\\n' {shlex.quote(server.username)} ;;\n"
            f"{shlex.quote(password_prompt)}) printf '%s\\n' \"${TOKEN_VARIABLE}\" ;;\n"
            "*) exit 1 ;;\nesac\n"
        )
        network = {name: server.env[name] for name in NETWORK if server.env.get(name)}
        yield {**network, "GIT_ASKPASS": str(script), TOKEN_VARIABLE: server.token}


# --- refusals -------------------------------------------------------------------------------------

# The first match counts: GitLab's message about a protected branch comes with git's "[remote
# rejected]". Git's messages are English here (LC_ALL=C).
_ERROR_PATTERNS = (
    (TransferStatus.PROTECTED_BRANCH, "protected branch|protected tag"),
    (
        TransferStatus.NOT_FAST_FORWARD,
        r"\[rejected\]|non-fast-forward|fetch first|reference already exists",
    ),
    (
        TransferStatus.AUTHENTICATION,
        "authentication failed|could not read (username|password)|access denied|terminal prompts"
        "|returned error: 40[134]|not allowed to|permission|could not be found|not found",
    ),
    (TransferStatus.REJECTED, r"\[remote rejected\]|hook declined|couldn't find remote ref"),
    (
        TransferStatus.NETWORK,
        "unable to access|could not resolve|timed out|no end within|connection|hung up|early eof"
        "|rpc failed|returned error: [35]..",
    ),
)


def _parse_refusal(error: GitError, server: GitServer) -> Transfer:
    text = (error.stderr + b"\n" + error.stdout).decode("utf-8", "replace")
    matches = (status for status, pattern in _ERROR_PATTERNS if re.search(pattern, text, re.I))
    return Transfer(next(matches, TransferStatus.REJECTED), _format_message(text, server))


def _format_message(text: str, server: GitServer) -> str:
    """The server's message if there is one, else git's, on one line, without credentials."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    remote = [line.removeprefix("remote:").strip(" =>") for line in lines if line[:7] == "remote:"]
    local = [line for line in lines if re.match(r"fatal:|error:|git:|!", line)]
    message = " ".join(filter(None, remote)) or "; ".join(dict.fromkeys(local))
    message = message or "git failed without a message"
    clean = re.sub(r"//[^/@\s]*@", "//", message)
    for secret in filter(None, (server.token, quote(server.token, safe=""))):
        clean = clean.replace(secret, "[secret]")
    return make_printable(clean.replace("\t", " "), "")[:MESSAGE_LENGTH]
