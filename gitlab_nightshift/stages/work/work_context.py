"""What the work stage is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gitlab_nightshift.repository.prepared_folders import PreparedFolders
from gitlab_nightshift.run_context import RunContext
from gitlab_nightshift.stages.work.proof_choice import Commands
from gitlab_nightshift.system.raw_logs import Logs

if TYPE_CHECKING:  # plan makes one, too, and starts no sandbox
    from gitlab_nightshift.sandbox.self_confinement import OwnConfinement
    from gitlab_nightshift.sandbox.visible_system import SystemWalk


@dataclass(frozen=True, kw_only=True)
class WorkContext(RunContext):
    """Where and with what the work is done; no GitLab credential is in it.

    ``env`` is the part of the job's environment that agents may be given, ``model_env`` what model
    access needs, including the key; ``home`` this machine's own (git settings); ``logs`` are in
    ``private``; ``verify`` are the commands that prove a change; ``seconds`` is what the work may
    take (None: no deadline); ``secrets`` are files besides the checkout's own that no agent may
    read, ``named`` folders of the checkout that the job's variables name, ``programs`` those of
    PATH that only the sandbox gets (``checkout_programs.py``), ``walked`` is what was
    found on this machine (None: it is searched), ``prepared`` are folders that exist already,
    ``own`` says how this process is confined itself (None: unknown).
    """

    home: Path
    logs: Logs
    verify: Commands
    seconds: float | None
    model_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_commands: tuple[str, ...] = ()
    build_commands: tuple[str, ...] = ()
    secrets: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    walked: "SystemWalk | None" = None
    prepared: PreparedFolders | None = None
    own: "OwnConfinement | None" = None
