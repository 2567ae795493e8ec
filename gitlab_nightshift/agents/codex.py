"""Codex: its command line and environment.

Inside our boundary its own sandbox cannot work and is switched off: ours protects the machine.
Where the team has switched ours off (``isolation: none``) its own is used, if it works there.
"""

import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitlab_nightshift.agents.agent import BeadTask, ProviderInfo, check_program
from gitlab_nightshift.agents.codex_schema import restrict_schema
from gitlab_nightshift.agents.codex_stream import CodexStreamReader
from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox.process import capture
from gitlab_nightshift.settings.model import Settings

KEY = "OPENAI_API_KEY"
SCHEMA = "schema.json"
CHANGING = ("implement", "verify")
"""Beads whose commands write in the checkout: a build does, too."""
_OFF = (
    *("apps", "auth_elicitation", "browser_use", "computer_use", "goals", "hooks"),
    *("image_generation", "in_app_browser", "memories", "multi_agent", "multi_agent_v2", "plugins"),
    *("remote_plugin", "shell_snapshot", "tool_suggest", "unbounded_connection_retries"),
)
"""Features that a bead has no use for: each uses the network, or adds cost to every request."""
_QUIET = {
    "agents.enabled": False,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "feedback.enabled": False,
    "include_apps_instructions": False,
    "include_permissions_instructions": False,
    "skills.bundled.enabled": False,
    "skills.include_instructions": False,
    "web_search": "disabled",
    # What the checkout says is data: AGENTS.md is read like any other file, if at all.
    "project_doc_max_bytes": 0,
    # TMPDIR, a bead's own, is writable as well. In /tmp the CLI's sandbox makes mount points, among
    # them an empty /tmp/.git, which others take for a checkout.
    "sandbox_workspace_write.exclude_slash_tmp": True,
    # A login shell would set a PATH of its own.
    "allow_login_shell": False,
    "approval_policy": "never",
}


class Codex:
    """The ``codex`` CLI in ``exec`` mode."""

    name = "codex"
    keys: tuple[str, ...] = (KEY,)
    about = ProviderInfo(
        program="codex",
        tools="a shell; the allowed commands are asked for, and the sandbox is the wall",
        answer="by the endpoint (--output-schema), and once more by this program",
        cost="tokens; dollars by `prices`",
        report_by="as your last message, with no other text in it",
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, env: Mapping[str, str]) -> None:
        """The CLI is there, and a key for it."""
        check_program(self._settings.agent_executable or "codex", "@openai/codex", env)
        if not env.get(KEY):
            raise NightshiftError(
                Code.PROVIDER_UNAVAILABLE, f"no model key: set {KEY} as a masked CI variable"
            )

    def find_cloud_variables(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """None."""
        return ()

    def build_settings_env(self) -> dict[str, str]:
        """None: HOME is a bead's own, and all else stands on the command line."""
        return {}

    def build_access_env(self, base_url: str, placeholder: str) -> dict[str, str]:
        """The placeholder; its own commands do not get it. The address is an argument."""
        return {KEY: placeholder}

    def build_files(self, task: BeadTask) -> dict[str, str]:
        """The schema of its last message."""
        return {SCHEMA: json.dumps(restrict_schema(task.schema))} if task.schema else {}

    def build_bead_args(self, task: BeadTask, path: str) -> list[str]:
        """``codex exec`` with nothing of the user's or the checkout's configuration."""
        program = self._find_executable(path)
        schema = ["--output-schema", str(task.handoff_file.with_name(SCHEMA))]
        return [
            str(program),
            *("exec", "--json", "--color", "never", "--ephemeral"),
            *("--ignore-user-config", "--ignore-rules", "--skip-git-repo-check"),
            *("-C", str(task.checkout), "-m", task.model),
            *self._build_sandbox_args(program, path, task),
            *(schema if task.schema else []),
            *_format_options(self._build_config(task)),
            "-",
        ]

    def build_stdin(self, shared: str, rest: str) -> bytes:
        """The prompt as it is: this service finds what was sent before by itself."""
        return (shared + rest).encode()

    def list_readable_paths(self, path: str) -> tuple[Path, ...]:
        """The folder of npm's packages that it is in, else its own package, else it alone."""
        real = self._find_executable(path)
        packages = [folder for folder in real.parents if folder.name == "node_modules"]
        own = [folder for folder in real.parents if (folder / "codex-package.json").is_file()]
        return (*packages[-1:], *own[:1], real)[:1]

    def build_reader(self) -> CodexStreamReader:
        """A fresh reader; as patient with a failing endpoint as with a silent CLI."""
        return CodexStreamReader(self._settings.idle_timeout)

    def _find_executable(self, path: str) -> Path:
        """The native program itself: npm's ``codex`` only starts it, and would need Node."""
        name = self._settings.agent_executable or "codex"
        real = Path(shutil.which(name, path=path) or name).resolve()
        return next(iter(_find_native_programs(real)), real)

    def _build_sandbox_args(self, program: Path, path: str, task: BeadTask) -> list[str]:
        if self._settings.isolation != "none" or not own_sandbox_works(str(program), path):
            return ["-s", "danger-full-access"]
        if task.bead not in CHANGING:
            return ["-s", "read-only"]
        return ["-s", "workspace-write", "--add-dir", str(task.handoff_file.parent)]

    def _build_config(self, task: BeadTask) -> dict[str, object]:
        endpoint = {
            "name": "nightshift",
            "base_url": f"{task.base_url}/v1",
            "env_key": KEY,
            "wire_api": "responses",
            # The gateway waits for an overloaded endpoint, so the CLI does not.
            "request_max_retries": 1,
            "stream_max_retries": 3,
            "stream_idle_timeout_ms": int(self._settings.idle_timeout * 1000),
        }
        return {
            "model_provider": "nightshift",
            "model_providers.nightshift": endpoint,
            "shell_environment_policy": {"inherit": "all", "exclude": [KEY]},
            **_QUIET,
            **{f"features.{name}": False for name in _OFF},
        }


@functools.cache
def own_sandbox_works(program: str, path: str) -> bool:
    """Try the CLI's own sandbox with a command that does nothing (0.1 s). Where it fails in a bead,
    every command fails and the CLI says that all is well."""
    with tempfile.TemporaryDirectory(prefix="nightshift-") as folder:
        home, tmp = Path(folder, "home"), Path(folder, "tmp")
        home.mkdir()
        tmp.mkdir()  # it refuses a HOME below TMPDIR
        env = {"PATH": path, "HOME": str(home), "TMPDIR": str(tmp)}
        argv = [program, "sandbox", "--", "/bin/sh", "-c", ":"]
        return capture(argv, cwd=home, env=env, timeout_s=20).ok


def _find_native_programs(script: Path) -> Iterable[Path]:
    """The program that npm's ``codex.js`` starts, where npm or pnpm installs it."""
    if script.name != "codex.js":
        return ()
    package = script.parents[1]
    inner = f"vendor/{os.uname().machine}-*/bin/codex"
    beside = package.parent.glob(f"codex-linux-*/{inner}")
    below = package.glob(f"node_modules/@openai/codex-linux-*/{inner}")
    return (found.resolve() for found in (*beside, *below, *package.glob(inner)))


def _format_options(config: Mapping[str, object]) -> list[str]:
    """``-c key=value`` for each; the values are TOML."""
    return [
        word for key, value in config.items() for word in ("-c", f"{key}={_format_toml(value)}")
    ]


def _format_toml(value: object) -> str:
    """A value as TOML, which writes texts, numbers and lists as JSON does."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_format_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
