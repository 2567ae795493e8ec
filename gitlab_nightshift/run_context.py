"""What is known of a run in each of its processes; who adds what to it."""

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
    """What both of its types know: ``session.py: Session``, which has the token, and
    ``stages/work/work_context.py: WorkContext``, which has not. Functions take one of the two, so
    that nothing with the token fits where agents run.

    ``env`` is the job's environment, as much of it as the process may have; ``config_folder`` is
    where relative template paths start; ``private`` a folder outside the checkout that no agent can
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
        """The environment to look for programs in: with no folder of the checkout on PATH."""
        return {**self.env, "PATH": build_search_path(self.env, self.checkout)}

    def tell(self, text: str) -> None:
        """A fact worth a line."""
        self.emit(Note(text))
