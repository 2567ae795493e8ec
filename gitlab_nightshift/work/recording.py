"""Record a night for the agent ``replay``; the format is in ``docs/replay.md``."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.errors import config_error
from gitlab_nightshift.host.changes import Captured
from gitlab_nightshift.host.logs import reading
from gitlab_nightshift.host.openat import Refused, read_regular
from gitlab_nightshift.host.process import Ended
from gitlab_nightshift.host.repository import Repository
from gitlab_nightshift.records import BeadResult
from gitlab_nightshift.redaction import Redactor
from gitlab_nightshift.work.agents.base import BeadTask
from gitlab_nightshift.work.agents.player import RECORDED_CHECKOUT, in_json
from gitlab_nightshift.work.agents.replay import FORMAT, INDEX, bead_folder
from gitlab_nightshift.work.handoff import LARGEST, STUBS


@dataclass(frozen=True)
class Recorder:
    """Keeps beads as they end; without a folder it keeps nothing."""

    folder: Path | None
    agent: str
    redact: Redactor

    def start(self, checkout: Path) -> None:
        """Begin a recording; an older one in the folder is replaced.

        Raises ``E_CONFIG`` for a folder of something else, and for one in the checkout: what is
        new there would be part of the change.
        """
        if not self.folder:
            return
        if self.folder.resolve().is_relative_to(checkout.resolve()):
            raise config_error(f"record_dir: {self.folder} is in the checkout; name one outside")
        try:
            if self.folder.exists() and not _is_recording(self.folder):
                raise config_error(f"record_dir: {self.folder} holds something else; name another")
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            index = json.dumps({"version": FORMAT, "agent": self.agent}, indent=2)
            (self.folder / INDEX).write_text(index + "\n", encoding="utf-8")
        except OSError as error:
            raise config_error(f"record_dir: {self.folder}: {error.strerror}") from None

    def keep(self, task: BeadTask, ended: Ended, stdout: Path) -> None:
        """Keep a bead's output, exit status and hand-off, without secrets."""
        if not self.folder:
            return
        folder = self.folder / bead_folder(task.bead, task.category, task.attempt)
        folder.mkdir(exist_ok=True)
        self._keep_output(stdout, folder / "stdout.jsonl", task.checkout)
        self._write(folder, {"exit_status": ended.exit_status, "pace_s": 0.0, "deleted": []})
        try:
            text = read_regular(task.handoff_file.parent, task.handoff_file.name, LARGEST)
        except Refused:
            return
        handoff = self.redact(text.decode("utf-8", "replace"))
        if handoff != json.dumps(STUBS.get(task.bead)):
            (folder / "handoff.json").write_text(handoff, encoding="utf-8")

    @staticmethod
    def _keep_output(stdout: Path, target: Path, checkout: Path) -> None:
        """The raw output; where it was recorded does not matter to a replay."""
        with reading(stdout) as old, target.open("wb") as new:
            for line in old:
                new.write(line.replace(in_json(checkout), in_json(RECORDED_CHECKOUT)))

    def keep_change(self, result: BeadResult, captured: Captured, repository: Repository) -> None:
        """Keep the files that an Implement left behind."""
        if not self.folder or captured.refusals:
            return
        folder = self.folder / bead_folder(result.bead, result.category, result.attempt)
        for file in captured.files:
            if file.status != "D":
                _write_file(repository, captured.tree_id, file.path, folder / "files" / file.path)
        deleted = [file.path for file in captured.files if file.status == "D"]
        how = json.loads((folder / "bead.json").read_bytes())
        self._write(folder, {**how, "deleted": deleted})

    @staticmethod
    def _write(folder: Path, how: dict[str, object]) -> None:
        (folder / "bead.json").write_text(json.dumps(how, indent=2) + "\n", encoding="utf-8")


def _is_recording(folder: Path) -> bool:
    return folder.is_dir() and ((folder / INDEX).is_file() or not any(folder.iterdir()))


def _write_file(repository: Repository, tree: str, name: str, target: Path) -> None:
    mode = repository.run("ls-tree", "-z", "--full-tree", tree, "--", name).split(b" ", 1)[0]
    data = repository.run("cat-file", "blob", f"{tree}:{name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == b"120000":
        target.symlink_to(os.fsdecode(data))
    else:
        target.write_bytes(data)
        target.chmod(0o755 if mode == b"100755" else 0o644)
