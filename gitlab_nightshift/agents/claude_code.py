"""Claude Code: its command line and environment.

The rules of the CLI guide an honest agent; the sandbox is what holds a hostile one. Flags that skip
permissions are never used.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from gitlab_nightshift.agents.agent import TOOLS, BeadTask, ProviderInfo, check_program
from gitlab_nightshift.agents.claude_stream import ClaudeStreamReader
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.model import Settings

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
LEAST_BUDGET_USD = 0.01
"""The CLI crashes on a budget that prints as zero."""


class ClaudeCode:
    """The ``claude`` CLI in print mode."""

    name = "claude_code"
    keys = KEYS
    about = ProviderInfo(
        program="claude",
        tools="a bead's own, and the allowed commands; the CLI enforces both",
        answer="by the CLI (--json-schema)",
        cost="dollars and tokens, counted by the gateway",
        report_by="by the tool StructuredOutput",
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, env: Mapping[str, str]) -> None:
        """The CLI is there, and a key for it."""
        check_program(self._settings.agent_executable or "claude", "@anthropic-ai/claude-code", env)
        if not self.find_cloud_variables(env) and not any(env.get(key) for key in KEYS):
            raise NightshiftError(
                Code.PROVIDER_UNAVAILABLE,
                f"no model key: set {KEYS[0]} as a masked CI variable (or {', '.join(KEYS[1:])})",
            )

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """The clouds whose credentials the team passes on by name."""
        return tuple(name for name in CLOUDS if name in self._settings.agent_env and env.get(name))

    def build_settings_env(self) -> dict[str, str]:
        """Quiet and private: no updates, telemetry, memory, background tasks or commit texts of
        its own. The gateway waits for an overloaded endpoint, so the CLI does not."""
        command_ms = str(int(max(self._settings.idle_timeout * 0.9, 1.0) * 1000))
        return {
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
            # It would put what is left of the budget before the prompt, which no cache survives,
            # and read in files that a quoted line names by "@".
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            # Its default of two minutes ends long builds.
            "BASH_DEFAULT_TIMEOUT_MS": command_ms,
            "BASH_MAX_TIMEOUT_MS": command_ms,
        }

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The gateway's address, and the placeholder where the CLI looks for a key."""
        return {"ANTHROPIC_BASE_URL": base_url, "ANTHROPIC_API_KEY": placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """None."""
        return {}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """``claude -p`` with exactly the bead's tools, and rules for what they may access."""
        schema = ["--json-schema", json.dumps(task.schema)] if task.schema else []
        return [
            str(self._find_executable(path)),
            *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
            *("--verbose", "--include-partial-messages"),
            *("--model", task.model),
            *("--tools", ",".join(TOOLS[task.bead])),
            *("--permission-mode", "dontAsk"),
            *("--allowedTools", *_build_rules(task)),
            *("--setting-sources", "user", "--strict-mcp-config"),
            *("--max-budget-usd", f"{max(task.budget_usd, LEAST_BUDGET_USD):.4f}"),
            "--no-session-persistence",
            *schema,
        ]

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """One message of two blocks. The service caches a prompt up to a mark and by whole blocks,
        and the CLI marks the last one only, which no other bead begins with."""
        marked = {"type": "text", "text": shared, "cache_control": {"type": "ephemeral"}}
        blocks = [marked, {"type": "text", "text": rest}]
        message = {"type": "user", "message": {"role": "user", "content": blocks}}
        return json.dumps(message).encode() + b"\n"

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The folder of npm's packages that it is in, else the program alone."""
        real = self._find_executable(path)
        packages = [folder for folder in real.parents if folder.name == "node_modules"]
        return (packages[-1],) if packages else (real,)

    def _find_executable(self, path: str) -> Path:
        """The program itself, not a link to it, which a sandbox may not show."""
        name = self._settings.agent_executable or "claude"
        return Path(shutil.which(name, path=path) or name).resolve()

    def build_reader(self) -> ClaudeStreamReader:
        """A fresh reader; as patient with a failing endpoint as with a silent CLI."""
        return ClaudeStreamReader(self._settings.idle_timeout)


def _build_rules(task: BeadTask) -> list[str]:
    """Path rules for checkout and hand-off, and a rule for each allowed command.

    In the CLI an ``Edit`` rule governs Edit, Write and shell redirection, a ``Write`` rule nothing;
    reading the checkout needs no rule. The stub has to be read before it is replaced.
    """
    rules = [f"Read(/{task.handoff_file.parent}/**)"]
    if task.schema:
        rules.append(f"Edit(/{task.handoff_file})")
    if "Edit" in TOOLS[task.bead]:
        rules.append("Edit(./**)")
    if task.any_command:
        return [*rules, "Bash"]
    return rules + [_build_command_rule(command) for command in task.allowed_commands]


def _build_command_rule(command: str) -> str:
    """One word: that program with any arguments; several words: exactly that command."""
    return f"Bash({command} *)" if len(command.split()) == 1 else f"Bash({command})"
