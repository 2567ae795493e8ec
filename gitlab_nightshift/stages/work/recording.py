"""Record a night for the agent ``replay``; the format is in ``docs/replay.md``."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadTask
from gitlab_nightshift.agents.replay import FORMAT, INDEX, format_bead_folder
from gitlab_nightshift.agents.replay_player import RECORDED_CHECKOUT, encode_json_path
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.records.bead_results import BeadResult
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.repository.capture import CapturedChange
from gitlab_nightshift.repository.private_repository import Repository
from gitlab_nightshift.repository.tree_objects import find_entries, read_tree_file
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.stages.work.handoff import LARGEST, STUBS
from gitlab_nightshift.system.openat import RefusedFileError, read_regular
from gitlab_nightshift.system.raw_logs import open_log


@dataclass(frozen=True)
class Recorder:
    """Records beads as they end, in the team's ``record_dir`` (None: records nothing)."""

    folder: Path | None
    agent: str
    redact: Redactor

    def start(self, checkout: Path) -> None:
        """Begin a recording, which replaces an older one in the folder.

        Raises ``E_CONFIG`` for a folder that holds something else, and for one in the checkout:
        its new files would be part of the change.
        """
        if not self.folder:
            return
        index = self.folder / INDEX
        if self.folder.resolve().is_relative_to(checkout.resolve()):
            raise build_config_error(
                f"record_dir: {self.folder} is in the checkout; choose a folder outside it"
            )
        try:
            empty = self.folder.is_dir() and not any(self.folder.iterdir())
            if self.folder.exists() and not (index.is_file() or empty):
                raise build_config_error(
                    f"record_dir: {self.folder} holds something else; choose another folder"
                )
            # Deleted only because it was recognized as a recording: record_dir may name any folder.
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True, exist_ok=True)  # a mount point cannot be removed
            _write_json(index, {"version": FORMAT, "agent": self.agent})
        except OSError as error:
            raise build_config_error(f"record_dir: {self.folder}: {error.strerror}") from None

    def record_bead(self, task: BeadTask, ended: ProgramEnd, stdout: Path) -> None:
        """Record a bead's output, exit status and hand-off, without secrets."""
        if not self.folder:
            return
        folder = self.folder / format_bead_folder(task.bead, task.category, task.attempt)
        folder.mkdir(exist_ok=True)
        # A replay runs in another checkout, so this one's path is replaced.
        paths = encode_json_path(task.checkout), encode_json_path(RECORDED_CHECKOUT)
        with open_log(stdout) as output, (folder / "stdout.jsonl").open("wb") as recorded:
            recorded.writelines(line.replace(*paths) for line in output)
        entry = {"exit_status": ended.exit_status, "pace_s": 0.0, "deleted": []}
        _write_json(folder / "bead.json", entry)
        try:
            data = read_regular(task.handoff_file.parent, task.handoff_file.name, LARGEST)
        except RefusedFileError:
            return
        handoff = self.redact(data.decode("utf-8", "replace"))
        # A stub that the agent did not replace is no hand-off.
        if handoff != json.dumps(STUBS.get(task.bead)):
            (folder / "handoff.json").write_text(handoff, encoding="utf-8")

    def record_change(
        self, result: BeadResult, captured: CapturedChange, repository: Repository
    ) -> None:
        """Record the files that an Implement bead has changed or deleted."""
        if not self.folder or captured.refusals:
            return
        folder = self.folder / format_bead_folder(result.bead, result.category, result.attempt)
        for file in captured.files:
            if file.status != "D":
                _write_file(repository, captured.tree_id, file.path, folder / "files" / file.path)
        deleted = [file.path for file in captured.files if file.status == "D"]
        entry = json.loads((folder / "bead.json").read_bytes())
        _write_json(folder / "bead.json", {**entry, "deleted": deleted})


def _write_json(file: Path, entry: dict[str, object]) -> None:
    file.write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")


def _write_file(repository: Repository, tree: str, path: str, target: Path) -> None:
    """Write a file of a tree, with its mode, to the disk."""
    data = read_tree_file(repository, tree, path)
    assert data is not None, path
    mode, _ = find_entries(repository, tree, [path])[path]
    target.parent.mkdir(parents=True, exist_ok=True)
    # Git's modes: 120000 is a link, 100755 an executable file (git-fast-import(1)).
    if mode == "120000":
        target.symlink_to(os.fsdecode(data))
    else:
        target.write_bytes(data)
        target.chmod(0o755 if mode == "100755" else 0o644)
