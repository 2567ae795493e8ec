"""A bead's own folders, and the files in them."""

from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.system.environment import TRUSTING


@dataclass(frozen=True)
class Scratch:
    """A bead's own folders: a fresh HOME and TMPDIR, and one for the hand-off."""

    home: Path
    tmp: Path
    handoff: Path

    @property
    def handoff_file(self) -> Path:
        """The file that the agent writes its report to."""
        return self.handoff / "handoff.json"

    @property
    def analysis_file(self) -> Path:
        """Analyze's selection, for the agent to read."""
        return self.handoff / "analysis.json"

    @property
    def patch_file(self) -> Path:
        """The last attempt's change, if there was one, for the agent to read."""
        return self.handoff / "last.patch"

    def write_patch(self, patch: bytes) -> None:
        """Write the last attempt's change, read-only; nothing if it is empty."""
        if patch:
            self.patch_file.write_bytes(patch)
            self.patch_file.chmod(0o444)


def make_scratch(folder: Path) -> Scratch:
    """Create ``folder`` with the folders in it."""
    scratch = Scratch(folder / "home", folder / "tmp", folder / "handoff")
    for part in (folder, scratch.home, scratch.tmp, scratch.handoff):
        part.mkdir(mode=0o700)
    (scratch.home / ".gitconfig").write_text(TRUSTING)
    return scratch
