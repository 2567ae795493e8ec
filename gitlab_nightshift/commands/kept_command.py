"""A command that is a single process drops the rights that its row of the table does not name."""

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


def keep_to_row(
    row: ProcessRow,
    env: Env,
    checkout: Path | None = None,
    output: Collection[Path] = (),
    ports: tuple[int, ...] = (),
) -> None:
    """Keep only the rights of ``row``, on Linux. Its repository is ``checkout`` with git's folders,
    its output the folders ``output``, its network only TCP to ``ports``. A kernel without Landlock
    causes a warning."""
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
        from gitlab_nightshift.system.retry import write_notice

        write_notice(f"warning: this process is not confined: {error.strerror}")
