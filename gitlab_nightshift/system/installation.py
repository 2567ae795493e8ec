"""Refuses to run from a folder where an agent may write."""

import sys
from pathlib import Path

from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.sealed_start import lies_in


def refuse_installation_in(checkout: Path) -> None:
    """Raise E_CONFIG if this process could import files that an agent writes."""
    for part in (sys.executable, *sys.path):
        if lies_in(Path(part or "."), checkout):
            raise build_config_error(
                f"nightshift runs from {part or 'the current folder'}, in the checkout, where"
                " agents write: install it elsewhere, such as python3 -m venv /opt/nightshift"
            )
