"""The secrets of the job, read once: from the environment, and from the files in ``<project>.tmp``
that the runner writes for variables of type file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.secret_texts import (
    LARGEST_FILE,
    SHORTEST_IN_FILE,
    URL_PASSWORD,
    find_secrets,
    is_secret_name,
    read_plain_file,
    remove_public_parts,
)

TOKEN = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable
MODEL_KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
)
SHORTEST_IN_VARIABLE = 6
"""Characters. To redact shorter values would hide ordinary words in every log."""
_NOTIFICATION_NAME = compile_lazily(r"WEBHOOK|NOTIFY(?!_ON$)|APPRISE", re.IGNORECASE)
_NOTIFICATION_ADDRESS = compile_lazily(
    r"""
      # slack://a/b/c
      (?P<chat>(discord|slack|workflows|msteams|mmosts?|rockets?|matrixs?|gchat|webex)://\S+)
    | (?P<push>(gotifys?|ntfys?|tgram|pover|pbul|signals?)://\S+)       # ntfys://topic
    | (?P<mail>(mailtos?|twilio|sns)://\S+)                             # mailtos://a:b@example.org
    | (?P<alarm>(opsgenie|pagerduty)://\S+)                             # opsgenie://key
    | (?P<hook>(jsons?|xmls?|forms?)://\S+)                             # jsons://example.org/hook
    | (?P<url>https://\S*(hook|discord\.com/api)\S*)  # https://example.org/hooks/1
    """,
    re.IGNORECASE | re.VERBOSE,
)
_GITLAB_CREDENTIAL = compile_lazily(
    r"(GITLAB|GL|CI)_(\w+_)?(TOKEN|PASSWORD|PAT|KEY|JWT(_V\d)?)|CI_REPOSITORY_URL"
    r"|CI_SERVER_TLS_KEY_FILE|(PRIVATE|JOB)_TOKEN|DOCKER_AUTH_CONFIG|TRIGGER_PAYLOAD",
    re.IGNORECASE,
)
"""GitLab credentials, by GitLab's own names and usual ones; and the trigger's payload."""
_LARGEST_WHOLE_SECRET = 8 * 1024
"""Characters of a file that is a single secret, if the name of its variable says so."""
_MOST_VALUES = 100
"""Values of all files together: each slows down the search of logs."""
TRIGGER_PAYLOAD = "TRIGGER_PAYLOAD"
"""The body of the request that triggered the pipeline. It is no secret, but has people's comments
and addresses, which agents do not need."""


def _find_file_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The job's variables of type file: name → path."""
    project = env.get("CI_PROJECT_DIR", "").rstrip("/")
    if not project.startswith("/"):
        return {}
    return {name: path for name, path in env.items() if path == f"{project}.tmp/{name}"}


def _read_file_secrets(env: Mapping[str, str]) -> list[str]:
    """The secrets in the files of variables of type file."""
    secrets: dict[str, None] = {}
    for name, path in sorted(_find_file_variables(env).items()):
        if name == TRIGGER_PAYLOAD:
            continue
        data = read_plain_file(path, LARGEST_FILE) or b""
        text = remove_public_parts(data.decode("utf-8", "replace"))
        if is_secret_name(name) and len(text) <= _LARGEST_WHOLE_SECRET:
            secrets[text] = None
        secrets |= dict.fromkeys(find_secrets(text))
    return [secret for secret in secrets if len(secret) >= SHORTEST_IN_FILE][:_MOST_VALUES]


@dataclass(frozen=True, repr=False)
class Secrets:
    """The token, and the ``values`` to redact. Never printed: the repr shows none of them."""

    gitlab_token: str = ""
    values: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)} values)"


def read_secrets(env: Mapping[str, str]) -> Secrets:
    """The GitLab token, and all values to redact: the token, model keys, values of variables with a
    secret's name, notification addresses, credentials in URLs, and the secrets in variables of type
    file.

    Names decide what is redacted; what an agent gets is decided by an allowlist, from which
    ``is_gitlab_credential`` takes names away.
    """
    token = env.get(TOKEN, "").strip()
    file_variables = _find_file_variables(env)
    # The value of a file variable is a path, not a secret.
    plain = {name: value for name, value in env.items() if name not in file_variables}
    guessed = {value.strip() for name, value in plain.items() if is_secret_name(name)}
    for name, value in plain.items():
        guessed.update(_find_addresses(name, value))
    guessed.update(URL_PASSWORD.findall("\n".join(plain.values())))
    secrets = {value for value in guessed if len(value) >= SHORTEST_IN_VARIABLE}
    secrets.update(_read_file_secrets(env), (env.get(name, "").strip() for name in MODEL_KEYS))
    secrets = (secrets | {token}) - {""}
    # A secret that contains another one is redacted as a whole.
    return Secrets(token, tuple(sorted(secrets, key=lambda value: (-len(value), value))))


def _find_addresses(name: str, value: str) -> list[str]:
    """The notification URLs in a variable's value: anyone who knows one can post to it."""
    words = [word.strip("\"'[],") for word in value.replace(",", " ").split()]
    if _NOTIFICATION_NAME.search(name):
        return [word for word in words if "://" in word]
    return [word for word in words if _NOTIFICATION_ADDRESS.fullmatch(word)]


def is_gitlab_credential(name: str) -> bool:
    """True for a GitLab credential or TRIGGER_PAYLOAD, which no setting may pass to an agent."""
    return _GITLAB_CREDENTIAL.fullmatch(name) is not None
