"""What work could change outside its places where only Landlock confines it, kept as it was."""

import contextlib
from collections.abc import Iterator

from gitlab_nightshift.run_folder import RunFolder
from gitlab_nightshift.system.kept_modes import keep_modes
from gitlab_nightshift.system.shared_memory import look_at_shared_memory


@contextlib.contextmanager
def keep_machine(there: RunFolder) -> Iterator[None]:
    """Undo at the end of the block, when work and agents have ended, what they have done to the
    folders that the supervisor has to pass, and to shared memory."""
    modes = keep_modes((there.checkout.resolve(), there.results))
    shared_memory = look_at_shared_memory()
    try:
        yield
    finally:
        modes.restore()
        shared_memory.remove_new()
