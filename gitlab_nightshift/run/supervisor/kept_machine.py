"""Undoes what work can change outside its folders where only Landlock confines it."""

import contextlib
from collections.abc import Iterator

from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.system.outside_changes import keep_modes, look_at_shared_memory


@contextlib.contextmanager
def undo_outside_changes(run_folder: RunFolder) -> Iterator[None]:
    """At the end of the block restore the modes of the folders that the supervisor must enter, and
    remove new shared memory. Work and agents must have ended by then."""
    modes = keep_modes((run_folder.checkout.resolve(), run_folder.results))
    shared_memory = look_at_shared_memory()
    try:
        yield
    finally:
        modes.restore()
        shared_memory.remove_new()
