"""The facts about a run that each of its processes has; ``Session`` and ``WorkContext`` add to
them."""

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
    """The part that ``session.py: Session``, which has the token, and
    ``stages/work/work_context.py: WorkContext``, which does not, have in common. Functions take one
    of the two, so that nothing with the token can be passed to where agents run.

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
        """The environment in which programs are looked for: PATH has no folder of the checkout."""
        return {**self.env, "PATH": build_search_path(self.env, self.checkout)}

    def tell(self, text: str) -> None:
        """Emit a note, which the job log shows as a line."""
        self.emit(Note(text))
