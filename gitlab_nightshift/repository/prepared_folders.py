"""Folders that the supervisor makes for the work process, which cannot make them itself."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.records.codec import LOCAL
from gitlab_nightshift.repository.prepared_checkout import PreparedCheckout
from gitlab_nightshift.system.private_folders import open_scratch_folder

TEMPORARY = "own"


@dataclass(frozen=True)
class PreparedFolders:
    """``private`` is work's part of the run's private folder, ``scratch`` will contain the agents'
    folders, ``spare`` is the job's folder for temporary files, in which work may write only these.
    ``checkout`` is set once it is prepared."""

    private: Path
    scratch: Path
    spare: Path
    checkout: PreparedCheckout | None = field(default=None, metadata=LOCAL)

    @property
    def temporary(self) -> Path:
        """Work's folder for temporary files, which others may enter, like the scratch folder."""
        return self.scratch / TEMPORARY

    @property
    def places(self) -> tuple[Path, ...]:
        """The folders that work may write."""
        return self.private, self.scratch


@contextlib.contextmanager
def prepare(checkout: Path, private: Path, name: str = "work") -> Iterator[PreparedFolders]:
    """Make the folders for a process of a run; ``name`` is that of its part in the run's private
    folder. They are removed at the end."""
    spare, own = private.parent, private / name
    own.mkdir(mode=0o700)
    with open_scratch_folder(spare, checkout) as scratch:
        made = PreparedFolders(own, scratch, spare)
        made.temporary.mkdir()
        made.temporary.chmod(0o711)
        yield made
