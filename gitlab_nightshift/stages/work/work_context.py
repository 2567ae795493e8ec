"""The input of the work stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.records.codec import LOCAL
from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.system.raw_logs import Logs

if TYPE_CHECKING:  # plan makes one, too, and starts no sandbox
    from gitlab_nightshift.sandbox.self_confinement import OwnConfinement
    from gitlab_nightshift.sandbox.visible_system import SystemWalk


@dataclass(frozen=True, kw_only=True)
class WorkContext(RunContext):
    """The input of the work stage, without any GitLab credential.

    ``env`` is the part of the job's environment that agents may get; ``model_env`` what model
    access needs, including the key; ``home`` this machine's real home (git settings); ``logs`` are
    in ``private``; ``verify`` are the commands that prove a change; ``seconds`` is the time limit
    (None: no deadline); ``secrets`` are files, besides the checkout's, that no agent may read;
    ``named`` folders of the checkout that the job's variables name; ``programs`` folders on the
    PATH of the sandbox alone (``checkout_programs.py``); ``walked`` is a finished search of this
    machine (None: not done yet); ``prepared`` are existing folders; ``own`` is the confinement of
    this process (None: unknown).
    """

    home: Path
    logs: Logs = field(metadata=LOCAL)
    verify: Commands
    seconds: float | None = field(metadata=LOCAL)
    model_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_commands: tuple[str, ...] = ()
    build_commands: tuple[str, ...] = ()
    secrets: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    walked: "SystemWalk | None" = field(default=None, metadata=LOCAL)
    prepared: PreparedFolders | None = field(default=None, metadata=LOCAL)
    own: "OwnConfinement | None" = field(default=None, metadata=LOCAL)
