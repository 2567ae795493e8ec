"""A full disk, told as what it is."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gitlab_nightshift.errors import NightshiftError, config_error, is_disk_full


@contextlib.contextmanager
def told_where_full(*places: Path, logs: Path | None = None) -> Iterator[None]:
    """Raises NightshiftError (``E_CONFIG``) where the block finds the disk of a place full.

    The largest file in ``logs`` is cut then, so that the results can be written.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        fullest = min(places, key=lambda place: shutil.disk_usage(place).free)
        if logs:
            _cut_largest(logs)
        raise _no_space(fullest) from None


def _cut_largest(logs: Path) -> None:
    sizes = {path: path.stat().st_size for path in logs.iterdir() if path.is_file()}
    if largest := max(sizes, key=sizes.__getitem__, default=None):
        os.truncate(largest, sizes[largest] // 10)


def _no_space(place: Path) -> NightshiftError:
    return config_error(
        f"no space left on the disk of {place}: free some, or put it elsewhere"
        " (TMPDIR for temporary files, the runner's builds_dir for the checkout)"
    )
