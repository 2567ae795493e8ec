"""The call of a run, and its private folder. It keeps the results until no agent is left; then
they are moved to the output folder in the checkout.

Needs the standard library alone: the supervisor opens the folder before it starts any stage.
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
from gitlab_nightshift.system.processes import close_to_others, refuse_installation_in


@dataclass(frozen=True)
class Invocation:
    """The call of a command: its environment, folder and options. ``run_id`` is that of the process
    that started this one, outside CI."""

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
    def earlier(self) -> Path:
        """The folder that keeps what an earlier stage left in the output folder."""
        return self.private / result_files.EARLIER

    @property
    def logs(self) -> Path:
        """Raw logs while the run goes on."""
        return self.private / "logs"


@contextlib.contextmanager
def open_run_folder(env: Mapping[str, str], folder: Path) -> Iterator[RunFolder]:
    """A new private folder for a run in the checkout around ``folder``.

    First what killed runs left there is repaired, and their results are recovered. Raises
    NightshiftError for what is wrong.
    """
    close_to_others()
    checkout = find_checkout_top(folder)
    refuse_installation_in(checkout)
    with open_private_folder(find_temp_folder(env), checkout) as private:
        mend(checkout, env, private)
        run_folder = RunFolder(checkout, private)
        run_folder.results.mkdir()
        yield run_folder


def mend_killed(env: Mapping[str, str], why: str) -> bool:
    """Repair what this job's killed run left in the checkout around the current folder, and recover
    its results, with the reason ``why``. True if there was something to repair. Raises
    NightshiftError."""
    checkout = find_checkout_top(Path.cwd())
    with open_private_folder(find_temp_folder(env), checkout) as private:
        return mend(checkout, env, private, why, read_job(env).run_id)


def mend(
    checkout: Path,
    env: Mapping[str, str],
    private: Path,
    *ending: str,
) -> bool:
    """Repair what a killed run left in the checkout, and recover its results; True if there was
    something to repair. ``ending`` is why the run ended, and its id, if it has ended just now."""
    path = build_search_path(env, checkout)
    mended = repair(checkout, private=private, search_path=path, unused_since_run=bool(ending))
    for place in {private.parent, choose_short_parent(private.parent)}:
        remove_leftovers(place, checkout, lambda folder: _recover_results(folder, *ending))
    return mended


def _recover_results(folder: Path, *ending: str) -> None:
    # Imported late: it loads the records, and most starts find no killed run.
    from gitlab_nightshift.stages.report.killed_run import recover_results

    recover_results(folder, *ending)


def find_temp_folder(env: Mapping[str, str]) -> Path:
    """The folder of ``TMPDIR``, or the system's. Raises ``E_CONFIG`` if programs cannot be written
    and started there: git starts one to ask for the token."""
    given = env.get("TMPDIR") or tempfile.gettempdir()
    try:
        tempfile.TemporaryFile(dir=given).close()
    except OSError as error:
        if is_disk_full(error):
            raise
        text = f"TMPDIR: {given} is not a writable folder: create it or unset it"
        raise build_config_error(text) from None
    # mount(8), noexec: nothing in that file system can be executed.
    if os.statvfs(given).f_flag & os.ST_NOEXEC:
        text = f"TMPDIR: {given} is mounted noexec, and a night starts programs there"
        raise build_config_error(f"{text}: set TMPDIR to a folder on another disk")
    return Path(given)


def find_checkout_top(folder: Path) -> Path:
    """The top of the checkout that ``folder`` lies in. Raises ``E_CONFIG``."""
    resolved = folder.resolve()
    refuse_line_break(resolved)
    spare = Path(tempfile.gettempdir())
    for place in (resolved, *resolved.parents):
        # After a kill, the real .git may still be beside the checkout, out of agents' reach.
        moved = place.name and any(path.exists() for path in list_candidate_folders(place, spare))
        if os.path.lexists(place / ".git") or moved:
            return place
    raise build_config_error(f"{resolved} is not in a git checkout: run this in a clone")


# --- the output folder ------------------------------------------------------------------------


def set_aside(run_folder: RunFolder, output: Path) -> None:
    """Keep the output folder of an earlier stage away from agents, until ``place_results``."""
    if output.is_dir() and not output.is_symlink():
        try:
            result_files.set_aside(run_folder.private, output)
        except OSError as error:
            raise build_config_error(f"{output} cannot be read: {error}") from None
    (run_folder.private / result_files.OUTPUT).write_bytes(os.fsencode(output))


def set_aside_early(run_folder: RunFolder, name: str) -> None:
    """Note where results belong, for a run that died before its settings were known. ``name`` is
    that of the output folder. If something of this name exists, it may be the project's own, and
    nothing is noted."""
    output = run_folder.checkout / name
    known = (run_folder.private / result_files.OUTPUT).exists() or os.path.lexists(output)
    if not known and name[:1].isalnum() and "/" not in name:
        set_aside(run_folder, output)


def read_output_path(run_folder: RunFolder) -> Path | None:
    """The output folder in which the results belong; None if it was never noted."""
    note = run_folder.private / result_files.OUTPUT
    return Path(os.fsdecode(note.read_bytes())) if note.exists() else None


def place_results(run_folder: RunFolder, output: Path | None) -> str:
    """Put all results into the output folder, and return "", or why they are not there. ``output``
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
