"""The agent ``replay``: plays a recorded night, in a process like any other agent's.

The format is in ``docs/replay.md``; ``record_dir`` records a real night.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.agents.agent import AgentInfo, AgentProvider, BeadTask, OutputReader
from gitlab_nightshift.agents.claude_code import ClaudeCode
from gitlab_nightshift.errors import build_config_error
from gitlab_nightshift.sandbox.system_paths import build_python_command, list_interpreter_paths
from gitlab_nightshift.settings.model import Settings

FORMAT = 1
INDEX = "recording.json"
PLAYER = Path(__file__).with_name("replay_player.py")


class Replay(AgentProvider):
    """The agent ``replay``, which asks no model: it reads its prompt and ignores it."""

    name = "replay"
    info = AgentInfo(
        cli="",
        tools="none: it repeats what was recorded",
        answer_checked_by="as recorded",
        cost="the recorded figures; a replay costs nothing",
        runs_commands=False,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._folder = Path(settings.replay_dir or "").absolute()
        self._recorded_agent = ClaudeCode(settings)

    def check(self, env: Mapping[str, str]) -> None:
        """Check that the recording exists and has a known format."""
        index = self._folder / INDEX
        try:
            data = json.loads(index.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise build_config_error(f"replay_dir: {index}: no recorded night: {why}") from None
        expected = {"version": FORMAT, "agent": self._recorded_agent.name}
        if not isinstance(data, dict) or not expected.items() <= data.items():
            raise build_config_error(
                f"replay_dir: {index}: a recording of claude_code in format {FORMAT} is expected"
            )

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """The command that plays this bead's folder of the recording."""
        folder = self._folder / format_bead_folder(task.bead, task.category, task.attempt)
        arguments = (PLAYER, folder, task.checkout, task.handoff_file)
        return build_python_command(*map(str, arguments))

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The player, its Python, and the recording."""
        return (PLAYER, self._folder, *list_interpreter_paths())

    def build_reader(self) -> OutputReader:
        """The reader of the agent that was recorded."""
        return self._recorded_agent.build_reader()


def format_bead_folder(bead: str, category: str, attempt: int) -> str:
    """The name of a bead's folder in a recording."""
    return f"{bead}-{category}-{attempt}"
