"""How a run was called, and its private folder. That keeps the results until no agent is left;
then they are moved to the output folder in the checkout.

Standard library only: the supervisor opens the folder before it starts any stage.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.errors import build_config_error, is_disk_full
from gitlab_nightshift.job.job_facts import read_job
from gitlab_nightshift.repository.broken_repository import refuse_line_break
from gitlab_nightshift.repository.checkout_restore import repair
from gitlab_nightshift.repository.state_folder import list_candidate_folders
from gitlab_nightshift.stages.report import result_files
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import choose_short_parent
from gitlab_nightshift.system.private_folders import open_private_folder, remove_leftovers
from gitlab_nightshift.system.processes import forbid_inspection, refuse_installation_in


@dataclass(frozen=True)
class Invocation:
    """How a command was called. Outside CI, a child process has the ``run_id`` of its parent."""

    env: Mapping[str, str] = field(repr=False)
    folder: Path
    config: str | None
    overrides: Mapping[str, str]
    colour: bool
    run_id: str = ""


@dataclass(frozen=True)
class RunFolder:
    """The private folder of a run in a checkout."""

    checkout: Path
    private: Path

    @property
    def results(self) -> Path:
        """The folder of the run's results, which are moved to the output folder at its end."""
        return self.private / result_files.RESULTS

    @property
    def earlier_output(self) -> Path:
        """The folder with what an earlier stage left in the output folder."""
        return self.private / result_files.EARLIER

    @property
    def logs(self) -> Path:
        """The folder of the raw logs during the run."""
        return self.private / "logs"


@contextlib.contextmanager
def open_run_folder(env: Mapping[str, str], folder: Path) -> Iterator[RunFolder]:
    """A new private folder for a run in the checkout around ``folder``.

    First, killed runs in that checkout are cleaned up. Raises NightshiftError.
    """
    forbid_inspection()
    checkout = find_checkout_top(folder)
    refuse_installation_in(checkout)
    with open_private_folder(find_temp_folder(env), checkout) as private:
        clean_up_killed_runs(checkout, env, private)
        run_folder = RunFolder(checkout, private)
        run_folder.results.mkdir()
        yield run_folder


def clean_up_own_run(env: Mapping[str, str], why: str) -> bool:
    """Clean up this job's run, which was just killed, in the checkout around the current folder.
    ``why`` becomes its reason. True if the checkout needed repair. Raises NightshiftError."""
    checkout = find_checkout_top(Path.cwd())
    with open_private_folder(find_temp_folder(env), checkout) as private:
        return clean_up_killed_runs(checkout, env, private, (why, read_job(env).run_id))


def clean_up_killed_runs(
    checkout: Path, env: Mapping[str, str], private: Path, killed_now: tuple[str, str] | None = None
) -> bool:
    """Repair what killed runs left in the checkout, and recover their results. True if the checkout
    needed repair. ``killed_now`` is the reason and the id of a run that was killed just now."""

    def recover(folder: Path) -> None:
        # Imported late: it loads the records, and most starts find no killed run.
        from gitlab_nightshift.stages.report.killed_run import recover_results

        recover_results(folder, *(killed_now or ()))

    path, just_now = build_search_path(env, checkout), killed_now is not None
    repaired = repair(checkout, private=private, search_path=path, unused_since_run=just_now)
    for parent in {private.parent, choose_short_parent(private.parent)}:
        remove_leftovers(parent, checkout, recover)
    return repaired


def find_temp_folder(env: Mapping[str, str]) -> Path:
    """The folder of ``TMPDIR``, or the system's. Raises ``E_CONFIG`` if programs cannot be written
    and started there: git starts one to ask for the token."""
    folder = env.get("TMPDIR") or tempfile.gettempdir()
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        if is_disk_full(error):
            raise
        text = f"TMPDIR: {folder} is not a writable folder: create it or unset it"
        raise build_config_error(text) from None
    # mount(8), noexec: nothing in that file system can be executed.
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        text = f"TMPDIR: {folder} is mounted noexec, and a night starts programs there"
        raise build_config_error(f"{text}: set TMPDIR to a folder on another disk")
    return Path(folder)


def find_checkout_top(folder: Path) -> Path:
    """The top of the checkout that ``folder`` lies in. Raises ``E_CONFIG``."""
    resolved = folder.resolve()
    refuse_line_break(resolved)
    temp = Path(tempfile.gettempdir())
    for path in (resolved, *resolved.parents):
        # A killed run may have left the real .git in its state folder, out of agents' reach.
        is_moved = path.name and any(each.exists() for each in list_candidate_folders(path, temp))
        if os.path.lexists(path / ".git") or is_moved:
            return path
    raise build_config_error(f"{resolved} is not in a git checkout: run this in a clone")


# --- the output folder ------------------------------------------------------------------------


def set_aside(run_folder: RunFolder, output: Path) -> None:
    """Move the output folder of an earlier stage out of agents' reach, until ``place_results``."""
    if output.is_dir() and not output.is_symlink():
        try:
            result_files.set_aside(run_folder.private, output)
        except OSError as error:
            raise build_config_error(f"{output} cannot be read: {error}") from None
    (run_folder.private / result_files.OUTPUT).write_bytes(os.fsencode(output))


def note_default_output(run_folder: RunFolder, name: str) -> None:
    """Note that the results belong into the folder ``name``, for a run that died before its
    settings were read. Does nothing if that is noted already, or if the folder exists: it may be
    the project's own."""
    output = run_folder.checkout / name
    is_decided = (run_folder.private / result_files.OUTPUT).exists() or os.path.lexists(output)
    if not is_decided and name[:1].isalnum() and "/" not in name:
        set_aside(run_folder, output)


def read_output_path(run_folder: RunFolder) -> Path | None:
    """The output folder that the results belong into; None if it was never noted."""
    note = run_folder.private / result_files.OUTPUT
    return Path(os.fsdecode(note.read_bytes())) if note.exists() else None


def place_results(run_folder: RunFolder, output: Path | None) -> str:
    """Move all results into the output folder. Returns why that failed, "" on success. ``output``
    is from ``read_output_path``, called before any agent ran.

    Raises ``E_CONFIG`` on a full disk.
    """
    if output is None:
        return ""
    try:
        result_files.place_results(run_folder.private, output)
    except OSError as error:
        return f"the results are not in {output}, which cannot be written: {error}"
    return ""
