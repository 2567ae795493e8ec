"""Finds risky variables of a job and reports their names, never their values.

Nothing depends on this list: allowlists decide what agents and this program's processes get. It is
for the people who set the variables.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.sealed_start import lies_in
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.secret_texts import is_secret_name

_KINDS: Mapping[str, re.Pattern[str]] = {
    "runs code": compile_lazily(
        r"""
          (?P<loader>LD_(PRELOAD|AUDIT)|BASH_ENV)                       # LD_PRELOAD
        | (?P<python>PYTHON(STARTUP|HOME|BREAKPOINT))                   # PYTHONSTARTUP
        | (?P<interpreter>PERL5(OPT|DB)|RUBYOPT|NODE_OPTIONS)           # RUBYOPT
        # GIT_PAGER
        | (?P<git_program>GIT_(SSH|SSH_COMMAND|ASKPASS|PROXY_COMMAND|EXTERNAL_DIFF|PAGER))
        | (?P<git_editor>GIT_(EDITOR|SEQUENCE_EDITOR|EXEC_PATH|TEMPLATE_DIR))  # GIT_EDITOR
        # GIT_DIR
        | (?P<git_place>GIT_(DIR|WORK_TREE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES))
        | (?P<git_config>GIT_CONFIG(_(?!NOSYSTEM)\w+)?)                 # GIT_CONFIG_COUNT
        """,
        re.VERBOSE,
    ),
    "opens a machine or a cluster": compile_lazily(
        r"DOCKER_(HOST|CONTEXT)|CONTAINER_HOST|SSH_AUTH_SOCK|KUBECONFIG|KUBE_\w+"
    ),
    "cloud credentials": compile_lazily(
        r"""
          (?P<aws_key>AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN))  # AWS_SESSION_TOKEN
        | (?P<aws_more>AWS_(BEARER_TOKEN_\w+|WEB_IDENTITY_\w+))  # AWS_BEARER_TOKEN_BEDROCK
        # ARM_CLIENT_SECRET
        | (?P<azure>AZURE_(CLIENT_\w+|PASSWORD|FEDERATED_TOKEN\w*)|ARM_CLIENT_\w+)
        # GOOGLE_CREDENTIALS
        | (?P<google>GOOGLE_(APPLICATION_CREDENTIALS|CREDENTIALS|OAUTH_ACCESS_TOKEN))
        | (?P<google_tool>GCP_\w*KEY\w*|CLOUDSDK_AUTH_\w+)                  # GCP_SA_KEY
        | (?P<other>DIGITALOCEAN_\w*TOKEN|HCLOUD_TOKEN|VAULT_TOKEN)         # VAULT_TOKEN
        """,
        re.VERBOSE,
    ),
}
"""Kind of risk, in words → the names of its variables."""
# docs.gitlab.com/ci/variables: both show secrets in the job log.
_TRACES = ("CI_DEBUG_TRACE", "CI_DEBUG_SERVICES")
_SEARCH_PATHS = frozenset(
    "PATH PYTHONPATH LD_LIBRARY_PATH NODE_PATH CLASSPATH PERL5LIB RUBYLIB HOME TMPDIR"
    " XDG_CONFIG_HOME".split()
)
"""Where programs look for code or settings; in the checkout, an agent may have written them."""
_HARMLESS = compile_lazily(r"\S{8,}|\d*|true|false|yes|no|on|off", re.IGNORECASE)
"""Values that GitLab can mask (docs.gitlab.com/ci/variables, "Mask a CI/CD variable": one line,
eight or more characters, no spaces), and values too plain to be a secret."""
_SET_FOR_JOB = compile_lazily(
    r"(CI|GITLAB_USER|FF|RUNNER|NIGHTSHIFT)_\w+|GITLAB_CI|GITLAB_FEATURES"
)
"""Variables that GitLab or the runner sets, or that are for this program."""


@dataclass(frozen=True)
class Risk:
    """Names of variables of one kind; agents get those ``passed_on`` by ``agent_env``."""

    kind: str
    names: tuple[str, ...]
    passed_on: tuple[str, ...]


def find_risks(
    env: Mapping[str, str], checkout: Path, expected: Collection[str], agent_env: Collection[str]
) -> tuple[Risk, ...]:
    """The risky variables of a job, each under the first matching kind. ``expected`` are names that
    a night needs, which are no risk: its token and its model key."""
    names_by_kind: dict[str, list[str]] = {}
    for name in sorted(env.keys() - set(expected)):
        if env[name] and (kind := _classify_variable(name, env[name], checkout)):
            names_by_kind.setdefault(kind, []).append(name)
    return tuple(
        Risk(kind, tuple(names), tuple(name for name in names if name in agent_env))
        for kind, names in names_by_kind.items()
    )


def _classify_variable(name: str, value: str, checkout: Path) -> str:
    """The kind of risk, "" for none."""
    if name in _TRACES:
        return "prints every variable into the job log" if value.strip().lower() == "true" else ""
    if name in _SEARCH_PATHS:
        return "leads into the checkout" if _leads_into(value, checkout) else ""
    if kind := next((kind for kind, names in _KINDS.items() if names.fullmatch(name)), ""):
        return kind
    if _SET_FOR_JOB.fullmatch(name):
        return ""
    if Redactor(())(value) != value:
        return "contains a token"
    is_unmasked = is_secret_name(name) and not _HARMLESS.fullmatch(value)
    return "a secret that GitLab cannot mask" if is_unmasked else ""


def _leads_into(value: str, checkout: Path) -> bool:
    """True if a folder of the search path is in the checkout, to which relative ones refer."""
    return any(lies_in(checkout / part, checkout) for part in value.split(os.pathsep))
