"""A command that is one process gives up what its row of the table does not name."""

import sys
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from gitlab_nightshift.commands.options import Env
from gitlab_nightshift.repository.git_folder import list_git_folders
from gitlab_nightshift.sandbox.privilege_drop import restrict_to
from gitlab_nightshift.sandbox.process_places import find_rights
from gitlab_nightshift.sandbox.process_table import ProcessRow
from gitlab_nightshift.system.file_names import choose_short_parent
from gitlab_nightshift.system.retry import write_notice


def keep_to_row(
    row: ProcessRow,
    env: Env,
    checkout: Path | None = None,
    output: Collection[Path] = (),
    ports: tuple[int, ...] = (),
) -> None:
    """From here on, on Linux. What the row says of a repository is about ``checkout`` and its git's
    folders, of output about the folders of files that were asked for (``output``), of the network
    about TCP to these ``ports`` alone. A kernel that knows none of this is told."""
    if sys.platform != "linux":
        return
    repository = (checkout, *list_git_folders(checkout)) if checkout else ()
    temporary = Path(tempfile.gettempdir())
    places = {
        "repository": list(map(str, repository)),
        "temporary": [str(temporary), str(choose_short_parent(temporary))],
        "output": list(map(str, output)),
    }
    try:
        restrict_to(replace(find_rights(row, places, env), ports=ports))
    except OSError as error:
        write_notice(f"warning: this process is not confined: {error.strerror}")
