"""Builds a child's environment, always from an allowlist, never by removing names."""

import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from gitlab_nightshift.job.job_secrets import is_gitlab_credential
from gitlab_nightshift.system.network_settings import CERTIFICATES

LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
BASE = ("PATH", "USER", *LOCALE, *CERTIFICATES)
JAVA = "JAVA_TOOL_OPTIONS"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build_allowed_env(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The variables of an environment that agents may be given: those of ``BASE`` and ``names``,
    without access to GitLab, whatever ``names`` says."""
    listed = [name for name in (*BASE, *names) if not is_gitlab_credential(name)]
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
    """The environment of an agent or a command: ``BASE``, a fresh HOME and TMPDIR, and ``names``
    (the provider's own variables and ``agent_env``), so no other key. ``programs`` as in
    ``build_search_path``.
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
    # Java ignores HOME and TMPDIR. The team's options (``more``) come last: Java uses the last
    # value.
    own = shlex.join((f"-Duser.home={home}", f"-Djava.io.tmpdir={tmp}"))
    return f"{own} {more}".rstrip()


def build_search_path(
    env: Mapping[str, str], checkout: Path, programs: Collection[Path] = ()
) -> str:
    """The job's PATH without relative folders and without those of the checkout, where an agent may
    write.

    ``programs`` are folders of the checkout, links resolved, that are in the result nevertheless
    (only for use in the sandbox): in their place, or first if PATH does not contain them.
    """
    folders = [part for part in env.get("PATH", "").split(os.pathsep) if part.startswith("/")]
    checkout_forms = {form.rstrip("/") for form in (str(checkout), os.path.realpath(checkout))}
    opened = [str(folder) for folder in programs]
    # A folder of PATH may be a link to one of the programs' folders.
    resolved = ((folder, os.path.realpath(folder)) for folder in folders)
    named = [real if real in opened else folder for folder, real in resolved]
    kept = [each for each in named if each in opened or not _lies_in(each, checkout_forms)]
    added = [folder for folder in opened if folder not in kept]
    return os.pathsep.join([*added, *(kept or [DEFAULT_PATH])])


TRUSTED_CHECKOUTS = "[safe]\n\tdirectory = *\n"
"""For the ``.gitconfig`` in a sandbox's HOME: git refuses a checkout of another owner
(safe.directory, git-config(1)), which runners make if the image has its own user."""


def _lies_in(folder: str, tops: Collection[str]) -> bool:
    """True if a folder, as written or with links resolved, is one of the ``tops`` or below one."""
    # Both forms: a link outside may lead into the checkout, and one in the checkout out of it.
    forms = (str(Path(folder)), os.path.realpath(folder))
    return any(f"{form}/".startswith(f"{top}/") for form in forms for top in tops)
