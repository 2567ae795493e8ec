"""``nightshift patch``: a model reads the checkout and proposes a change; no file is changed."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.agents.model.answers import MalformedError
from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError
from gitlab_nightshift.agents.model.checkout_files import Workspace
from gitlab_nightshift.agents.model.edits import Edit, NotApplicableError
from gitlab_nightshift.agents.model.loop import AgentLoop, ContextTooSmallError, LoopLimits
from gitlab_nightshift.agents.model.tools import Toolbox
from gitlab_nightshift.agents.plain_model import BASE_URL, KEY, Model
from gitlab_nightshift.commands.apply_blocks import to_nightshift_error
from gitlab_nightshift.commands.options import keep_to_row
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gateway.gateway_start import open_gateway
from gitlab_nightshift.policy.path_patterns import within
from gitlab_nightshift.policy.prompts import SEPARATOR
from gitlab_nightshift.policy.secret_names import is_secret
from gitlab_nightshift.records.events import Emit, Event, Note
from gitlab_nightshift.records.usage import UNKNOWN_USAGE, SpendingLimit, Usage
from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.repository.git import Git, build_isolated_git
from gitlab_nightshift.run.session_opening import read_config_file
from gitlab_nightshift.run_folder import Invocation, find_checkout_top
from gitlab_nightshift.sandbox.process_table import PATCH
from gitlab_nightshift.settings.load import load_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Models
from gitlab_nightshift.stages.work.gateway_access import (
    MODEL_VARIABLES,
    BeadAccess,
    RunEgress,
    check_bounds,
    configure_gateway,
    open_access,
)
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import open_short_folder
from gitlab_nightshift.system.network_settings import NETWORK

TASK = """\
# Task: make one change

A person asked for this change of the repository below. Do exactly what it asks for and nothing
else, as small as does it well. Look like the neighbours: names, error handling, form of tests,
amount of comment, indentation.

<task>
{task}
</task>
"""


@dataclass(frozen=True)
class PatchRequest:
    """A call of ``patch``; ``files`` are those to begin with."""

    task: str | None
    model: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchProposal:
    """The model's edits, each of which fits its file; ``reason`` is why there are none."""

    edits: tuple[Edit, ...]
    model: str
    usage: Usage
    reason: str


def propose(
    call: Invocation, request: PatchRequest, report: Callable[[str], None]
) -> PatchProposal:
    """Let the model work on the checkout without writing its edits; ``report`` gets each step.

    Raises NightshiftError: ``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``, ``E_BUDGET``,
    ``E_PARSE_ERROR`` (its answers cannot be used), ``E_APPLY_FAILED`` (outside ``paths``).
    """
    with (
        _open_settings(call, request.model) as (top, git, own),
        open_short_folder(Path(tempfile.gettempdir())) as sockets,
    ):
        settings = _with_one_model(own.with_agent(Model.name))
        task = (request.task if request.task is not None else settings.task or "").strip()
        if not task:
            raise build_config_error("--task: say what is to be done (--task TEXT, or - for stdin)")
        provider = Model(settings)
        provider.check(call.env)
        check_bounds(settings, provider, call.env)
        names = (*provider.keys, *MODEL_VARIABLES, *NETWORK)
        env = {name: call.env[name] for name in names if call.env.get(name)}
        emit = _build_note_reporter(report)
        limit = SpendingLimit(settings.max_budget_usd, settings.max_tokens)
        config = configure_gateway(settings, provider, env, limit)
        with open_gateway(config, env, emit) as gateway:
            run_access = open_access(provider, env, RunEgress(), gateway, sockets / "gateway", emit)
            with run_access.open_bead("patch", settings.models.implement, limit) as access:
                port = urlsplit(access.env[BASE_URL]).port
                keep_to_row(PATCH, call.env, top, ports=(port,) if port else ())
                loop = _PatchLoop(top, git, settings, call, request, task, access, report)
                report(f"asking {settings.models.implement or 'the model'}")
                return loop.request_proposal()


@contextlib.contextmanager
def _open_settings(call: Invocation, model: str | None) -> Iterator[tuple[Path, Git, Settings]]:
    """The checkout's top, a git for it, and its settings; ``model`` overrides theirs."""
    named = {"models.implement": model} if model else {}
    top = find_checkout_top(call.folder)
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = build_isolated_git(Path(home), build_search_path(call.env, top))
        file, _ = read_config_file(call, top, git)
        yield top, git, load_settings(call.env, file, {**call.overrides, **named})


def _with_one_model(settings: Settings) -> Settings:
    """One model for all beads: that of Implement, "" if none is set."""
    name = settings.models.implement
    models = Models(analyze=name, implement=name, verify=name, mr=name)
    return settings.with_values(models=models)


def _build_note_reporter(report: Callable[[str], None]) -> Emit:
    def report_note(event: Event) -> None:
        if isinstance(event, Note):
            report(event.text)

    return report_note


@dataclass(frozen=True)
class _PatchLoop:
    """One task, and the model's conversation about it."""

    top: Path
    git: Git
    settings: Settings
    call: Invocation
    request: PatchRequest
    task: str
    access: BeadAccess
    report: Callable[[str], None]

    def request_proposal(self) -> PatchProposal:
        model, proposed = self.settings.models.implement, dict[str, Edit]()
        address, key = self.access.env[BASE_URL], self.access.env[KEY]
        chat = ChatClient(address, key, model, on_repeat=self.report)
        workspace = Workspace(self.top, self.git, proposed=proposed, is_hidden=self._is_hidden)
        limits = LoopLimits(self.settings.max_answer_tokens, tokens=self.settings.max_tokens)
        loop = AgentLoop(chat, Toolbox(workspace, None), limits, None, self._report_event)
        try:
            answer = loop.run(self._render_task())
        except (MalformedError, NotApplicableError) as error:
            raise to_nightshift_error(error) from None
        except ContextTooSmallError as error:
            raise build_config_error(f"{error}: name smaller files") from None
        except EndpointError as error:
            raise self._to_error(error) from None
        edits = tuple(edit for edit in proposed.values() if edit.before != edit.after)
        if outside := [edit.path for edit in edits if not within(edit.path, self.settings)]:
            raise NightshiftError(Code.APPLY_FAILED, f"{outside[0]}: outside the settings' paths")
        used = self.access.read_usage() or UNKNOWN_USAGE
        return PatchProposal(edits, model, used, "" if edits else answer)

    def _is_hidden(self, path: str) -> bool:
        return is_secret(path) or is_secret(f"{path}/")

    def _report_event(self, event: Mapping[str, Any]) -> None:
        if event.get("type") == "call":
            given = event["input"]
            self.report(
                f"{event['tool']} {given.get('path') or given.get('pattern') or ''}".strip()
            )

    def _render_task(self) -> str:
        files = list(_resolve_files(self.top, self.call.folder, self.request.files))
        task = INJECTION_MITIGATION_PREAMBLE + SEPARATOR + TASK.format(task=self.task)
        named = "".join(f"- {file}\n" for file in files)
        return f"{task}\nFiles to begin with:\n\n{named}" if named else task

    def _to_error(self, error: EndpointError) -> NightshiftError:
        if self.access.exhausted():
            return NightshiftError(Code.BUDGET, "the request does not fit into the budget")
        if error.status == 200:
            return NightshiftError(Code.PARSE_ERROR, str(error))
        return NightshiftError(
            Code.PROVIDER_UNAVAILABLE, self.access.describe_stop_reason() or str(error)
        )


def _resolve_files(top: Path, folder: Path, files: Iterable[str]) -> Iterator[str]:
    """The paths from the top of files that are named relative to the call's folder."""
    for name in files:
        place = Path(os.path.normpath(folder.resolve() / name))
        if not place.is_relative_to(top):
            raise build_config_error(f"{name}: outside the checkout {top}")
        path = str(place.relative_to(top))
        if is_secret(path):
            raise build_config_error(
                f"{name}: its name says that it holds secrets; no model is shown it"
            )
        if not place.is_file():
            raise build_config_error(f"{name}: no such file; a new one is named in the task")
        yield path
