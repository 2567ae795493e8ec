"""Builds a child's environment, always from an allowlist, never by removing names."""

import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.job.job_secrets import is_gitlab_credential
from gitlab_nightshift.system.network_settings import CERTIFICATES

LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
BASE_VARIABLES = ("PATH", "USER", *LOCALE, *CERTIFICATES)
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_allowed_env(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The variables of ``env`` that agents may get: ``BASE_VARIABLES`` and ``names``, but never
    GitLab credentials."""
    allowed = [name for name in (*BASE_VARIABLES, *names) if not is_gitlab_credential(name)]
    return {name: env[name] for name in allowed if env.get(name)}


def build_bead_env(
    env: Mapping[str, str],
    names: Collection[str],
    *,
    home: Path,
    tmp: Path,
    checkout: Path,
    program_folders: Collection[Path] = (),
) -> dict[str, str]:
    """The environment of an agent or a command: ``BASE_VARIABLES``, ``names`` (the provider's own
    variables and ``agent_env``), and a fresh HOME and TMPDIR. ``program_folders`` as in
    ``build_search_path``.
    """
    allowed = build_allowed_env(env, names)
    return {
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "nightshift",
        **allowed,
        "PATH": build_search_path(env, checkout, program_folders),
        "HOME": str(home),
        "TMPDIR": str(tmp),
        JAVA_OPTIONS: _build_java_options(home, tmp, allowed.get(JAVA_OPTIONS, "")),
        "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
    }


def _build_java_options(home: Path, tmp: Path, job_options: str) -> str:
    # Java ignores HOME and TMPDIR. The job's options come last, as Java uses the last value.
    folders = shlex.join((f"-Duser.home={home}", f"-Djava.io.tmpdir={tmp}"))
    return f"{folders} {job_options}".rstrip()


def build_search_path(
    env: Mapping[str, str], checkout: Path, program_folders: Collection[Path] = ()
) -> str:
    """The job's PATH without relative folders and without those of the checkout, where an agent may
    write.

    ``program_folders`` are those of the checkout, links resolved, that are in the result
    nevertheless (only for the sandbox): in their place, or first if PATH does not contain them.
    """
    in_checkout = [str(folder) for folder in program_folders]
    checkout_forms = {form.rstrip("/") for form in (str(checkout), os.path.realpath(checkout))}
    allowed = list[str]()
    for folder in filter(os.path.isabs, env.get("PATH", "").split(os.pathsep)):
        real = os.path.realpath(folder)  # it may be a link to one of the programs' folders
        if real in in_checkout:
            allowed.append(real)
        elif folder in in_checkout or not _lies_in(folder, checkout_forms):
            allowed.append(folder)
    added = [folder for folder in in_checkout if folder not in allowed]
    return os.pathsep.join([*added, *(allowed or [DEFAULT_PATH])])


TRUSTED_CHECKOUTS = "[safe]\n\tdirectory = *\n"
"""For the ``.gitconfig`` in a sandbox's HOME: git refuses a checkout of another owner
(safe.directory, git-config(1)), which runners make if the image has its own user."""


def _lies_in(folder: str, tops: Collection[str]) -> bool:
    """True if a folder, as written or with links resolved, is one of the ``tops`` or below one."""
    # Both forms: a link outside may lead into the checkout, and one in the checkout out of it.
    forms = (str(Path(folder)), os.path.realpath(folder))
    return any(f"{form}/".startswith(f"{top}/") for form in forms for top in tops)
