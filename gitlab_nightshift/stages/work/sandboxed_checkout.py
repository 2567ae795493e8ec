"""Where untrusted code runs: the checkout without its .git, its boundary, and a command runner."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.proof.proof_commands import Runner
from gitlab_nightshift.records.events import Note
from gitlab_nightshift.repository.checkout import Checkout, open_checkout, open_prepared
from gitlab_nightshift.repository.git import GitError
from gitlab_nightshift.repository.state_folder import list_hidden_paths
from gitlab_nightshift.sandbox.process import ProcessLimits
from gitlab_nightshift.sandbox.visible_system import look_at_system
from gitlab_nightshift.stages.work.boundary import (
    Boundary,
    BoundarySearch,
    OpenCheckout,
    open_boundary,
)
from gitlab_nightshift.stages.work.gateway_access import RunEgress, open_egress
from gitlab_nightshift.stages.work.tool_access import (
    SandboxView,
    check_tool_access,
    find_tool_folders,
)
from gitlab_nightshift.stages.work.work_context import WorkContext
from gitlab_nightshift.system.environment import build_bead_env, build_search_path
from gitlab_nightshift.system.file_names import open_short_folder


@dataclass(frozen=True)
class SandboxContext:
    """The input of a sandboxed checkout.

    ``gateway`` gives access to the model and to allowed hosts (None if neither is needed).
    ``cli_files`` are the files that an agent's CLI needs. ``left_s`` returns the seconds that the
    run has left (None: no deadline).
    """

    work: WorkContext
    gateway: RemoteGateway | None
    run_id: str
    cli_files: tuple[Path, ...]
    left_s: Callable[[], float | None]


@dataclass(frozen=True)
class SandboxedCheckout:
    """An open checkout and its boundary; ``sockets`` is a folder for the gateway's sockets."""

    checkout: Checkout
    boundary: Boundary
    sockets: Path
    sandbox_context: SandboxContext

    @contextlib.contextmanager
    def open_runner(self) -> Iterator[tuple[Boundary, RunEgress, Runner]]:
        """Open the network access and a command runner for the block. The boundary that is yielded
        lets commands use that access.

        Raises ``E_CONFIG`` for a needed program that is unreadable inside, ``E_TERMINATED`` if the
        broker was killed.
        """
        sandbox_context, work = self.sandbox_context, self.sandbox_context.work
        full_path = build_search_path(work.env, work.checkout, work.programs)
        view = SandboxView(
            search_path=self.boundary.filter_search_path(full_path),
            is_readable=self.boundary.is_readable,
            job_folders=work.job_folders,
        )
        check_tool_access(
            work.settings, work.verify.commands, work.env, work.search_path, view, work.emit
        )
        socket = self.sockets / "egress"
        broker = self.boundary.sandbox.broker
        with (
            broker.explain_end(OSError, GitError) if broker else contextlib.nullcontext(),
            open_egress(work.settings, sandbox_context.gateway, socket, work.emit) as egress,
        ):
            boundary = dataclasses.replace(self.boundary, services=egress.services)
            yield boundary, egress, _build_runner(sandbox_context, boundary, egress)


@contextlib.contextmanager
def open_sandboxed_checkout(sandbox_context: SandboxContext) -> Iterator[SandboxedCheckout]:
    """Choose the boundary and mask the checkout's .git; at the end restore everything.

    Raises NightshiftError E_CONFIG, E_POLICY_DENY, E_WORKSPACE_DIRTY.
    """
    work = sandbox_context.work
    prepared = work.prepared
    temporary = prepared.spare if prepared else work.private.parent
    hidden = list_hidden_paths(work.home, temporary, work.checkout)
    search = BoundarySearch(
        work=work,
        cli_files=sandbox_context.cli_files,
        tools=find_tool_folders(work.settings, work.env, work.job_folders),
        look=functools.partial(look_at_system, hidden, work.system_walk),
    )
    open_own_checkout = _prepare_opening(sandbox_context)
    with (
        open_boundary(search, open_own_checkout, work.emit) as (checkout, boundary),
        # A socket's path has at most 107 bytes (sun_path, unix(7)).
        open_short_folder(prepared.scratch if prepared else work.private) as sockets,
    ):
        yield SandboxedCheckout(checkout, boundary, sockets, sandbox_context)


def _prepare_opening(sandbox_context: SandboxContext) -> OpenCheckout:
    """How this run opens its checkout: the prepared one if there is one."""
    work = sandbox_context.work
    opening = functools.partial(
        open_checkout,
        work.checkout,
        output_dir=work.settings.output_dir,
        run_id=sandbox_context.run_id,
        real_home=work.home,
    )
    if work.prepared and work.prepared.checkout:
        opening = functools.partial(open_prepared, work.prepared.checkout)
    warn = lambda line: work.emit(Note(line, warning=True))  # noqa: E731
    return functools.partial(opening, private=work.private, search_path=work.search_path, warn=warn)


def _build_runner(sandbox_context: SandboxContext, boundary: Boundary, egress: RunEgress) -> Runner:
    work, scratch = sandbox_context.work, boundary.scratch / "commands"
    scratch.mkdir(mode=0o700)
    boundary.give_to_agents(scratch)
    env = build_bead_env(
        work.env,
        work.settings.agent_env,
        home=scratch / "home",
        tmp=scratch / "tmp",
        checkout=work.checkout,
        program_folders=boundary.program_folders,
    )
    runner = Runner(
        folder=work.checkout,
        env={
            **env,
            "PATH": boundary.filter_search_path(env["PATH"]),
            **boundary.build_git_env(),
            **egress.commands_env,
        },
        scratch=scratch,
        logs=work.logs,
        limits=lambda: ProcessLimits(
            timeout_s=sandbox_context.left_s(), output_bytes=work.settings.max_output
        ),
        emit=work.emit,
        boundary=boundary.build_confinement(work.checkout, scratch),
    )
    runner.renew()
    return runner
