"""``nightshift patch`` and ``execute``: SEARCH/REPLACE blocks, proposed by a model that reads the
checkout without changing it, and applied to the checkout, all or none.
"""

import contextlib
import difflib
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
from gitlab_nightshift.commands.options import keep_to_row
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
    """The arguments of ``patch``; None for those of the settings. ``files`` are those that the
    model is told to begin with."""

    task: str | None
    model: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchProposal:
    """The model's edits, each of which fits its file; without edits, ``reason`` is the model's."""

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
        # All that the gateway gets of the job's environment: the key, and the way to the network.
        names = (*provider.keys, *MODEL_VARIABLES, *NETWORK)
        env = {name: call.env[name] for name in names if call.env.get(name)}
        emit = _build_note_reporter(report)
        limit = SpendingLimit(settings.max_budget_usd, settings.max_tokens)
        config = configure_gateway(settings, provider, env, limit)
        with open_gateway(config, env, emit) as gateway:
            run_access = open_access(provider, env, RunEgress(), gateway, sockets / "gateway", emit)
            with run_access.open_bead("patch", settings.models.implement, limit) as access:
                # Rights are given up once the gateway listens, before the model's first answer.
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
    """The settings with one model for all beads: that of Implement, "" if none is set."""
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
        if outside := [edit.path for edit in edits if not is_in_scope(edit.path, self.settings)]:
            raise NightshiftError(Code.APPLY_FAILED, f"{outside[0]}: outside the settings' paths")
        state = self.access.read_state()
        used = state.usage if state else UNKNOWN_USAGE
        return PatchProposal(edits, model, used, "" if edits else answer)

    def _is_hidden(self, path: str) -> bool:
        return is_secret_file(path) or is_secret_file(f"{path}/")

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
        state = self.access.read_state()
        if state and state.exhausted:
            return NightshiftError(Code.BUDGET, "the request does not fit into the budget")
        if error.status == 200:  # an answer, of a form that cannot be used
            return NightshiftError(Code.PARSE_ERROR, str(error))
        why = state.unusable if state else ""
        return NightshiftError(Code.PROVIDER_UNAVAILABLE, why or str(error))


def _resolve_files(top: Path, folder: Path, files: Iterable[str]) -> Iterator[str]:
    """The paths from the top of files that are named relative to the call's folder."""
    for name in files:
        place = Path(os.path.normpath(folder.resolve() / name))
        if not place.is_relative_to(top):
            raise build_config_error(f"{name}: outside the checkout {top}")
        path = str(place.relative_to(top))
        if is_secret_file(path):
            raise build_config_error(
                f"{name}: its name says that it holds secrets; no model is shown it"
            )
        if not place.is_file():
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
    """The error of blocks that cannot be used, a line for each problem."""
    code = Code.PARSE_ERROR if isinstance(error, MalformedError) else Code.APPLY_FAILED
    return NightshiftError(code, str(error))


# --- printing -------------------------------------------------------------------------------------


def format_proposal(proposal: PatchProposal, form: str) -> str:
    """The blocks, a unified diff or JSON of a proposal (``form``: blocks, diff, json)."""
    if form == "diff":
        return "".join(map(format_diff, proposal.edits))
    blocks = render_blocks(write_blocks(proposal.edits))
    if form != "json":
        return blocks
    whole = {
        "blocks": blocks,
        "files": _build_rows(proposal.edits),
        "reason": proposal.reason,
        "model": proposal.model,
        "tokens": proposal.usage.tokens,
        "cost_usd": proposal.usage.cost_usd,
        "assumed_tokens": proposal.usage.assumed_tokens,
        "assumed_usd": proposal.usage.assumed_usd,
    }
    return json.dumps(whole, indent=2) + "\n"


def format_proposal_line(proposal: PatchProposal) -> str:
    """The model's result and cost, for a person."""
    count = len(proposal.edits)
    found = f"{count} file{'s' if count != 1 else ''}" if count else f"no change: {proposal.reason}"
    return f"{proposal.model}: {found} ({format_cost(proposal.usage)})"


def format_edits(edits: Iterable[Edit], *, dry_run: bool, as_json: bool) -> str:
    """The edits that ``execute`` made, or would make."""
    if as_json:
        whole = {"applied": not dry_run, "dry_run": dry_run, "files": _build_rows(edits)}
        return json.dumps(whole, indent=2) + "\n"
    would = "would be " if dry_run else ""
    return "".join(f"{would}{e.action} {e.path} (+{e.added} -{e.deleted})\n" for e in edits)


def _build_rows(edits: Iterable[Edit]) -> list[dict[str, object]]:
    return [
        {"path": e.path, "action": e.action, "added": e.added, "deleted": e.deleted} for e in edits
    ]


def format_diff(edit: Edit) -> str:
    """A unified diff of one text file, for reading; ``execute`` takes blocks."""
    before, after = (_split_lines(data) for data in (edit.before, edit.after))
    old = "/dev/null" if edit.before is None else f"a/{edit.path}"
    new = "/dev/null" if edit.after is None else f"b/{edit.path}"
    lines = difflib.unified_diff(before, after, old, new)
    # Incomplete lines as diff(1) shows them (GNU diffutils manual, "Incomplete Lines").
    ended = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return "".join(ended)


def _split_lines(data: bytes | None) -> list[str]:
    """Lines with their line feeds: other characters do not end a line, as in git."""
    text = (data or b"").decode("utf-8", "replace")
    return [f"{line}\n" for line in text.split("\n")[:-1]] + list(
        filter(None, [text.split("\n")[-1]])
    )
