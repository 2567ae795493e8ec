"""A bead's own folders, and the files that it is handed."""

from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.system.environment import TRUSTING


@dataclass(frozen=True)
class Scratch:
    """A bead's own folders: a fresh HOME and TMPDIR, and the hand-off's."""

    home: Path
    tmp: Path
    handoff: Path

    @property
    def handoff_file(self) -> Path:
        """Where the agent reports."""
        return self.handoff / "handoff.json"

    @property
    def analysis_file(self) -> Path:
        """Where the agent finds what Analyze selected."""
        return self.handoff / "analysis.json"

    @property
    def patch_file(self) -> Path:
        """Where the agent finds what the last attempt had changed, if there was one."""
        return self.handoff / "last.patch"

    def write_patch(self, patch: bytes) -> None:
        """Hand over what the last attempt had changed, to be read; nothing for an empty one."""
        if patch:
            self.patch_file.write_bytes(patch)
            self.patch_file.chmod(0o444)


def make_scratch(folder: Path) -> Scratch:
    """New folders below a new ``folder``."""
    scratch = Scratch(folder / "home", folder / "tmp", folder / "handoff")
    for part in (folder, scratch.home, scratch.tmp, scratch.handoff):
        part.mkdir(mode=0o700)
    (scratch.home / ".gitconfig").write_text(TRUSTING)
    return scratch
