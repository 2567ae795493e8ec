"""Packages that load a module when one of its names is asked for."""

import importlib
import subprocess
import sys

import pytest

from gitlab_nightshift.lazy_names import load_lazily
from tests.support.tables import each

PACKAGES = ("job", "policy", "records", "settings")


@each("package", PACKAGES)
def test_every_name_is_found(package: str) -> None:
    module = importlib.import_module(f"gitlab_nightshift.{package}")
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


def test_another_name_is_an_error() -> None:
    find = load_lazily("gitlab_nightshift.job", {"job_secrets": "Secrets"})
    with pytest.raises(AttributeError, match="has no attribute 'Secret'"):
        find("Secret")


def test_settings_that_are_checked_already_load_no_pydantic() -> None:
    """It takes longer to load than the rest of a small command, or of a process of a run."""
    program = (
        "import sys; from gitlab_nightshift.commands import change_check; "
        "from gitlab_nightshift.processes.settings_data import pack_settings, unpack_settings; "
        "from gitlab_nightshift.settings import load_settings; "
        "made = load_settings({}).with_agent('codex'); "
        "assert unpack_settings(pack_settings(made)) == made; print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "False\n"


def test_a_finding_loads_neither_bundles_nor_pydantic() -> None:
    program = (
        "import sys; from gitlab_nightshift.records import Finding; heavy = ('pydantic',"
        " 'gitlab_nightshift.records.'); print([n for n in sys.modules if n.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == "['gitlab_nightshift.records.verdicts']\n"
