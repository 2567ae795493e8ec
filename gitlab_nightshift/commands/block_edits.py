"""SEARCH/REPLACE blocks: ``nightshift patch`` has a model propose them, which reads the checkout
and changes nothing; ``execute`` applies them to the checkout, all or none.
"""

import contextlib
import difflib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gitlab_nightshift.agents.model import checkout_files
from gitlab_nightshift.agents.model.answers import MalformedError, parse_blocks, render_blocks
from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError
from gitlab_nightshift.agents.model.checkout_files import Workspace
from gitlab_nightshift.agents.model.edits import Edit, NotApplicableError, plan_edits, write_blocks
from gitlab_nightshift.agents.model.loop import AgentLoop, ContextTooSmallError, LoopLimits
from gitlab_nightshift.agents.model.texts import NO_BLOCKS
from gitlab_nightshift.agents.model.tools import Toolbox
from gitlab_nightshift.agents.plain_model import BASE_URL, KEY, Model
from gitlab_nightshift.commands.options import drop_privileges
from gitlab_nightshift.errors import Code, NightshiftError, build_config_error
from gitlab_nightshift.gateway.gateway_start import open_gateway
from gitlab_nightshift.policy.path_patterns import is_in_scope
from gitlab_nightshift.policy.prompts import SEPARATOR
from gitlab_nightshift.records.events import Emit, Event, Note
from gitlab_nightshift.records.usage import UNKNOWN_USAGE, SpendingLimit, Usage, format_cost
from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.repository import changed_files
from gitlab_nightshift.repository.git import Git, build_isolated_git, find_repository_paths
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
    check_cost_limit,
    configure_gateway,
    open_access,
)
from gitlab_nightshift.system.environment import build_search_path
from gitlab_nightshift.system.file_names import open_short_folder
from gitlab_nightshift.system.network_settings import NETWORK
from gitlab_nightshift.text.printable_text import count_words
from gitlab_nightshift.text.secret_texts import is_secret_file

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
    """The arguments of ``patch``; ``task`` and ``model`` are None for those of the settings. The
    prompt names ``files``, as the user did, to begin with."""

    task: str | None
    model: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchProposal:
    """The model's edits, each of which fits its file; ``reason`` says why there are none, else
    ""."""

    edits: tuple[Edit, ...]
    model: str
    usage: Usage
    reason: str


def propose(
    call: Invocation, request: PatchRequest, report: Callable[[str], None]
) -> PatchProposal:
    """Ask a model for edits of the checkout, without writing them; ``report`` gets a line for each
    step.

    Raises NightshiftError: ``E_CONFIG``, ``E_PROVIDER_UNAVAILABLE``, ``E_BUDGET``,
    ``E_PARSE_ERROR`` (unusable answers), ``E_APPLY_FAILED`` (edits outside ``paths``).
    """
    with (
        _open_settings(call, request.model) as (top, git, loaded),
        open_short_folder(Path(tempfile.gettempdir())) as sockets,
    ):
        settings = _with_one_model(loaded.with_agent(Model.name))
        task = (request.task if request.task is not None else settings.task or "").strip()
        if not task:
            raise build_config_error("--task: say what is to be done (--task TEXT, or - for stdin)")
        provider = Model(settings)
        provider.check(call.env)
        check_cost_limit(settings, provider, call.env)
        # The gateway gets the model key and the network settings from the environment, no more.
        names = (*provider.keys, *MODEL_VARIABLES, *NETWORK)
        env = {name: call.env[name] for name in names if call.env.get(name)}
        emit = _build_note_reporter(report)
        limit = SpendingLimit(settings.max_budget_usd, settings.max_tokens)
        config = configure_gateway(settings, provider, env, limit)
        with open_gateway(config, env, emit) as gateway:
            run_access = open_access(provider, env, RunEgress(), gateway, sockets / "gateway", emit)
            with run_access.open_bead("patch", settings.models.implement, limit) as access:
                # Only now, as this process starts the gateway; but before the first answer.
                port = urlsplit(access.env[BASE_URL]).port
                drop_privileges(PATCH, call.env, top, ports=(port,) if port else ())
                loop = _PatchLoop(top, git, settings, call, request, task, access, report)
                report(f"asking {settings.models.implement or 'the model'}")
                return loop.request_proposal()


@contextlib.contextmanager
def _open_settings(call: Invocation, model: str | None) -> Iterator[tuple[Path, Git, Settings]]:
    """The checkout's top, a git for it, and its settings; ``model`` overrides theirs."""
    model_override = {"models.implement": model} if model else {}
    top = find_checkout_top(call.folder)
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = build_isolated_git(Path(home), build_search_path(call.env, top))
        file, _ = read_config_file(call, top, git)
        yield top, git, load_settings(call.env, file, {**call.overrides, **model_override})


def _with_one_model(settings: Settings) -> Settings:
    """The settings with Implement's model for all beads, "" if none is set."""
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
    """The conversation with the model about one task."""

    top: Path
    git: Git
    settings: Settings
    call: Invocation
    request: PatchRequest
    task: str
    access: BeadAccess
    report: Callable[[str], None]

    def request_proposal(self) -> PatchProposal:
        model = self.settings.models.implement
        base_url, key = self.access.env[BASE_URL], self.access.env[KEY]
        chat = ChatClient(base_url, key, model, on_repeat=self.report)
        proposed: dict[str, Edit] = {}
        workspace = Workspace(self.top, self.git, proposed=proposed, is_hidden=_is_hidden)
        limits = LoopLimits(self.settings.max_answer_tokens, tokens=self.settings.max_tokens)
        loop = AgentLoop(chat, Toolbox(workspace, None), limits, None, self._report_event)
        try:
            answer = loop.run(self._render_task())
        except (MalformedError, NotApplicableError) as error:
            raise to_nightshift_error(error) from None
        except ContextTooSmallError as error:
            raise build_config_error(f"{error}: name smaller files") from None
        except EndpointError as error:
            raise self._convert_endpoint_error(error) from None
        edits = tuple(edit for edit in proposed.values() if edit.before != edit.after)
        if outside := [edit.path for edit in edits if not is_in_scope(edit.path, self.settings)]:
            raise NightshiftError(Code.APPLY_FAILED, f"{outside[0]}: outside the settings' paths")
        state = self.access.read_state()
        usage = state.usage if state else UNKNOWN_USAGE
        return PatchProposal(edits, model, usage, "" if edits else answer)

    def _report_event(self, event: Mapping[str, Any]) -> None:
        if event.get("type") == "call":
            arguments = event["input"]
            target = arguments.get("path") or arguments.get("pattern") or ""
            self.report(f"{event['tool']} {target}".strip())

    def _render_task(self) -> str:
        files = _resolve_files(self.top, self.call.folder, self.request.files)
        file_list = "".join(f"- {file}\n" for file in files)
        task = INJECTION_MITIGATION_PREAMBLE + SEPARATOR + TASK.format(task=self.task)
        return f"{task}\nFiles to begin with:\n\n{file_list}" if file_list else task

    def _convert_endpoint_error(self, error: EndpointError) -> NightshiftError:
        state = self.access.read_state()
        if state and state.exhausted:
            return NightshiftError(Code.BUDGET, "the request does not fit into the budget")
        if error.status == 200:  # an answer, of a form that cannot be used
            return NightshiftError(Code.PARSE_ERROR, str(error))
        why = state.unusable if state else ""
        return NightshiftError(Code.PROVIDER_UNAVAILABLE, why or str(error))


def _is_hidden(path: str) -> bool:
    return is_secret_file(path) or is_secret_file(f"{path}/")


def _resolve_files(top: Path, folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Paths relative to ``top`` of files that were named relative to ``folder``."""
    for name in names:
        file = Path(os.path.normpath(folder.resolve() / name))
        if not file.is_relative_to(top):
            raise build_config_error(f"{name}: outside the checkout {top}")
        path = str(file.relative_to(top))
        if is_secret_file(path):
            raise build_config_error(
                f"{name}: its name says that it holds secrets; no model is shown it"
            )
        if not file.is_file():
            raise build_config_error(f"{name}: no such file; a new one is named in the task")
        yield path


# --- applying blocks ------------------------------------------------------------------------------


def execute(call: Invocation, text: str, *, dry_run: bool, allow_dirty: bool) -> tuple[Edit, ...]:
    """Apply blocks to the checkout around ``call.folder``; returns the edits.

    Raises NightshiftError: ``E_PARSE_ERROR``, ``E_APPLY_FAILED``, ``E_WORKSPACE_DIRTY`` if a
    file has uncommitted changes.
    """
    top = find_checkout_top(call.folder)
    try:
        blocks = parse_blocks(text)
        if not blocks:
            raise MalformedError(NO_BLOCKS)
        edits = plan_edits(blocks, checkout_files.make_reader(top))
        if not allow_dirty:
            _refuse_dirty(call, top, edits)
        if not dry_run:
            checkout_files.apply(top, edits)
    except (MalformedError, NotApplicableError) as error:
        raise to_nightshift_error(error) from None
    return edits


def _refuse_dirty(call: Invocation, top: Path, edits: Iterable[Edit]) -> None:
    with tempfile.TemporaryDirectory(prefix="nightshift-") as home:
        git = build_isolated_git(Path(home), build_search_path(call.env, top))
        find_repository_paths(git, top)  # raises outside a checkout
        dirty = set(changed_files.list_changed_files(git, top)) & {edit.path for edit in edits}
    if dirty:
        names = ", ".join(sorted(dirty))
        raise NightshiftError(
            Code.WORKSPACE_DIRTY,
            f"{names}: changed and not committed; commit first, or say --allow-dirty",
        )


def to_nightshift_error(error: MalformedError | NotApplicableError) -> NightshiftError:
    """The NightshiftError for unusable blocks, with a line for each problem."""
    code = Code.PARSE_ERROR if isinstance(error, MalformedError) else Code.APPLY_FAILED
    return NightshiftError(code, str(error))


# --- printing -------------------------------------------------------------------------------------


def format_proposal(proposal: PatchProposal, output_format: str) -> str:
    """The proposal as ``blocks``, as a unified ``diff``, or as ``json``."""
    if output_format == "diff":
        return "".join(map(format_diff, proposal.edits))
    blocks = render_blocks(write_blocks(proposal.edits))
    if output_format == "blocks":
        return blocks
    data = {
        "blocks": blocks,
        "files": _build_rows(proposal.edits),
        "reason": proposal.reason,
        "model": proposal.model,
        "tokens": proposal.usage.tokens,
        "cost_usd": proposal.usage.cost_usd,
        "assumed_tokens": proposal.usage.assumed_tokens,
        "assumed_usd": proposal.usage.assumed_usd,
    }
    return json.dumps(data, indent=2) + "\n"


def summarize_proposal(proposal: PatchProposal) -> str:
    """A line with the number of changed files, or the reason for none, and the cost."""
    count = len(proposal.edits)
    result = f"{count_words(count, 'file')}" if count else f"no change: {proposal.reason}"
    return f"{proposal.model}: {result} ({format_cost(proposal.usage)})"


def format_edits(edits: Iterable[Edit], *, dry_run: bool, as_json: bool) -> str:
    """The edits that ``execute`` made, or would make."""
    if as_json:
        data = {"applied": not dry_run, "dry_run": dry_run, "files": _build_rows(edits)}
        return json.dumps(data, indent=2) + "\n"
    auxiliary = "would be " if dry_run else ""
    return "".join(f"{auxiliary}{e.action} {e.path} (+{e.added} -{e.deleted})\n" for e in edits)


def _build_rows(edits: Iterable[Edit]) -> list[dict[str, object]]:
    return [
        {"path": e.path, "action": e.action, "added": e.added, "deleted": e.deleted} for e in edits
    ]


def format_diff(edit: Edit) -> str:
    """A unified diff of one text file, for reading; ``execute`` takes blocks."""
    before, after = _split_lines(edit.before), _split_lines(edit.after)
    old = "/dev/null" if edit.before is None else f"a/{edit.path}"
    new = "/dev/null" if edit.after is None else f"b/{edit.path}"
    lines = difflib.unified_diff(before, after, old, new)
    # Incomplete lines as diff(1) shows them (GNU diffutils manual, "Incomplete Lines").
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _split_lines(data: bytes | None) -> list[str]:
    """Lines with their line feeds; as in git, no other character ends a line."""
    return list(io.StringIO((data or b"").decode("utf-8", "replace"), newline="\n"))
