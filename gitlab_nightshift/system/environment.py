"""Builds a child's environment, always from an allowlist, never by removing names."""

import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.job.job_secrets import is_gitlab_credential
from gitlab_nightshift.system.network_settings import CERTIFICATES

LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
PASSED = ("PATH", "USER", *LOCALE, *CERTIFICATES)
JAVA = "JAVA_TOOL_OPTIONS"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_allowed_env(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The part of an environment that agents may be given: the base list and ``names``.

    Access to GitLab is never in it, whatever ``names`` says.
    """
    listed = [name for name in (*PASSED, *names) if not is_gitlab_credential(name)]
    return {name: env[name] for name in listed if env.get(name)}


def build_bead_env(
    env: Mapping[str, str],
    names: Collection[str],
    *,
    home: Path,
    tmp: Path,
    checkout: Path,
    programs: Collection[Path] = (),
) -> dict[str, str]:
    """The environment of an agent or a command: the base, a fresh HOME and TMPDIR, and ``names``.

    ``names`` are the provider's own variables and ``agent_env``. No other key is ever in it.
    """
    passed = build_allowed_env(env, names)
    return {
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "nightshift",
        **passed,
        "PATH": build_search_path(env, checkout, programs),
        "HOME": str(home),
        "TMPDIR": str(tmp),
        JAVA: _build_java_options(home, tmp, passed.get(JAVA, "")),
        "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
    }


def _build_java_options(home: Path, tmp: Path, more: str) -> str:
    """Java ignores HOME and TMPDIR. The team's own options (``more``) come last, so they win."""
    own = shlex.join((f"-Duser.home={home}", f"-Djava.io.tmpdir={tmp}"))
    return f"{own} {more}".rstrip()


def build_search_path(
    env: Mapping[str, str], checkout: Path, programs: Collection[Path] = ()
) -> str:
    """The job's PATH without relative folders and the checkout's, where an agent may write.

    ``programs`` are folders of the checkout that stay nevertheless (only for use in the sandbox),
    links resolved. Those that are not in PATH are put first.
    """
    folders = [part for part in env.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    tops = {form.rstrip("/") for form in (str(checkout), os.path.realpath(checkout))}
    real = {part: os.path.realpath(part) for part in folders}
    own = {str(folder) for folder in programs}
    resolved = (real[part] if real[part] in own else part for part in folders)
    kept = [part for part in resolved if part in own or not _lies_in(part, tops)]
    added = [str(folder) for folder in programs if str(folder) not in kept]
    return os.pathsep.join([*added, *(kept or [DEFAULT_PATH])])


TRUSTED_CHECKOUTS = "[safe]\n\tdirectory = *\n"
"""For the ``.gitconfig`` in a sandbox's HOME: git refuses a checkout of another owner
(safe.directory, git-config(1)), which runners make if the image has its own user."""


def _lies_in(folder: str, tops: Collection[str]) -> bool:
    """True if a folder, as written or with links resolved, is in one of the tops."""
    # Both: a link may lead into the checkout, or one in the checkout out of it.
    forms = (str(Path(folder)), os.path.realpath(folder))
    return any(f"{form}/".startswith(f"{top}/") for form in forms for top in tops)
