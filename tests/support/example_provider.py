"""MyCoder: a CLI that prints what it does and writes its report into a file."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.agents.agent import (
    AgentInfo,
    AgentProgress,
    AgentProvider,
    BeadReport,
    BeadTask,
)
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.records.bead_results import BeadStatus
from gitlab_nightshift.records.usage import Usage
from gitlab_nightshift.sandbox.process import ProgramEnd
from gitlab_nightshift.settings.model import Settings


class MyCoder(AgentProvider):
    name = "mycoder"
    keys = ("OPENAI_API_KEY",)
    info = AgentInfo("mycoder", "a shell; the sandbox is the wall", "by this program", "tokens")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._name = settings.agent_executable or "mycoder"

    def check(self, env: Mapping[str, str]) -> None:
        if not shutil.which(self._name, path=env.get("PATH")) or not env.get(self.keys[0]):
            what = f"no agent: install {self._name}, and set {self.keys[0]}"
            raise NightshiftError(Code.PROVIDER_UNAVAILABLE, what)

    def build_settings_env(self) -> dict[str, str]:
        return {"MYCODER_TELEMETRY": "off"}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{base_url}/v1", "OPENAI_API_KEY": placeholder}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        program = str(self.list_readable_paths(path)[0])
        return [program, "--model", task.model, "--report", str(task.handoff_file)]

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        return (Path(shutil.which(self._name, path=path) or self._name).resolve(),)

    def build_reader(self) -> "Lines":
        return Lines()


class Lines:
    def read_line(self, raw: bytes) -> AgentProgress | None:
        return AgentProgress(raw.decode("utf-8", "replace").strip()[:120])

    def build_report(self, ended: ProgramEnd, stderr: bytes) -> BeadReport:
        status = BeadStatus.OK if ended.exit_status == 0 else BeadStatus.CRASHED
        return BeadReport(status, Usage(None, 0), stderr.decode("utf-8", "replace")[-200:])
