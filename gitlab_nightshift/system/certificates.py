"""The certificates that this program's own connections trust.

A company's may lie in the repository, where an agent could exchange it: such a file is copied
before the first agent, and only the copy is used. Agents keep the job's own variables.
"""

from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.sealed_start import find_checkouts, is_safe, read_certificates
from gitlab_nightshift.system.environment import CERTIFICATES, NETWORK

_FOLDER = "certificates"


def copy_certificates(env: Mapping[str, str], folder: Path, private: Path) -> dict[str, str]:
    """Variable → the copy below ``private`` of the file that it names in the checkout around
    ``folder``. Others have no copy (``sealed_start.py`` warns of them)."""
    found = {
        name: read_certificates(env[name], folder) for name in _find_names_in_checkout(env, folder)
    }
    made = {name: _build_copy_path(private, name) for name, content in found.items() if content}
    for name, path in made.items():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(found[name])
    return {name: str(path) for name, path in made.items()}


def build_network_env(env: Mapping[str, str], folder: Path, private: Path) -> dict[str, str]:
    """The way to the internet for this program's own connections: of files in the checkout the
    copies, where there are any."""
    made = {name: env[name] for name in NETWORK if env.get(name)}
    for name in _find_names_in_checkout(env, folder):
        del made[name]
        if _build_copy_path(private, name).exists():
            made[name] = str(_build_copy_path(private, name))
    return made


def _find_names_in_checkout(env: Mapping[str, str], folder: Path) -> list[str]:
    checkouts = find_checkouts(folder, env)
    return [name for name in CERTIFICATES if env.get(name) and not is_safe(env[name], checkouts)]


def _build_copy_path(private: Path, name: str) -> Path:
    return private / _FOLDER / name
