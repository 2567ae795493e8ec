"""What each process of a run knows about it; ``Session`` and ``WorkContext`` extend it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.job.job_facts import JobFacts
from gitlab_nightshift.records.codec import LOCAL
from gitlab_nightshift.records.events import Emit, Note
from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.system.environment import build_search_path


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The base of ``session.py: Session``, which has the token, and of
    ``stages/work/work_context.py: WorkContext``, which does not. Functions take one of the two, so
    that the token cannot be passed to where agents run.

    ``env`` is the part of the job's environment that the process may have; template paths are
    relative to ``config_folder``; ``private`` is a folder outside the checkout that no agent can
    access.
    """

    settings: Settings
    job: JobFacts
    env: Mapping[str, str] = field(repr=False)
    checkout: Path
    config_folder: Path
    private: Path = field(metadata=LOCAL)
    redact: Redactor = field(metadata=LOCAL)
    emit: Emit = field(metadata=LOCAL)

    @property
    def search_env(self) -> dict[str, str]:
        """The environment for finding programs: its PATH has no folder of the checkout."""
        return {**self.env, "PATH": build_search_path(self.env, self.checkout)}

    def tell(self, text: str) -> None:
        """Emit a note, which the job log shows as a line."""
        self.emit(Note(text))
