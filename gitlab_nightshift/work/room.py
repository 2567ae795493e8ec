"""Where untrusted code runs: the covered checkout, its boundary, and a way to run commands."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitlab_nightshift.events import Emit, Note
from gitlab_nightshift.host.aside import own_places
from gitlab_nightshift.host.checkout import Checkout, open_checkout
from gitlab_nightshift.host.environment import build_bead_env, search_path
from gitlab_nightshift.host.logs import Logs
from gitlab_nightshift.host.paths import short_folder
from gitlab_nightshift.host.process import Limits
from gitlab_nightshift.host.sandbox.system import Look, look_at_system
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.verdict.commands import Runner
from gitlab_nightshift.work.boundary import Boundary, Search, enclosed
from gitlab_nightshift.work.egress import Egress, open_egress
from gitlab_nightshift.work.reach import Ground, Inside, check_reach, tool_folders


@dataclass(frozen=True)
class Site:
    """What a room is made of.

    ``env`` is the part of the job's environment that agents may be given, ``model_env`` what the
    way to the model and to open hosts needs; ``places`` are what an agent's CLI is and needs;
    ``left_s`` gives the seconds that are left (None: no deadline), ``look`` what is private on this
    machine (None: it is looked for).
    """

    settings: Settings
    env: Mapping[str, str]
    model_env: Mapping[str, str] = field(repr=False)
    checkout: Path
    home: Path
    private: Path
    logs: Logs
    run_id: str
    places: tuple[Path, ...]
    left_s: Callable[[], float | None]
    emit: Emit
    look: Look | None = None


@dataclass(frozen=True)
class Room:
    """An opened checkout and what is around it; ``sockets`` is a folder for the gateway's."""

    checkout: Checkout
    boundary: Boundary
    sockets: Path
    site: Site

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Boundary, Egress, Runner]]:
        """The way to open hosts, and a runner of commands, for as long as the block lasts.

        Raises ``E_CONFIG`` for a program that is needed and cannot be reached inside.
        """
        site = self.site
        path = search_path(site.env, site.checkout)
        inside = Inside(self.boundary.search_path(path), self.boundary.opens, _ground(site))
        check_reach(site.settings, site.env, path, inside, site.emit)
        socket = self.sockets / "egress"
        with open_egress(site.settings, site.model_env, socket, site.emit) as egress:
            boundary = dataclasses.replace(self.boundary, gates=egress.gates)
            yield boundary, egress, _runner(site, boundary, egress)


@contextlib.contextmanager
def open_room(site: Site) -> Iterator[Room]:
    """Choose the boundary, cover the checkout; all is put back at the end.

    Raises NightshiftError E_CONFIG, E_POLICY_DENY, E_WORKSPACE_DIRTY.
    """
    path = search_path(site.env, site.checkout)
    own = own_places(site.home, site.private, site.checkout)
    search = Search(
        settings=site.settings,
        checkout=site.checkout,
        private=site.private,
        places=site.places,
        tools=tool_folders(site.settings, site.env, _ground(site)),
        path=path,
        look=site.look or functools.partial(look_at_system, own),
    )
    opener = functools.partial(
        open_checkout,
        site.checkout,
        output_dir=site.settings.output_dir,
        private=site.private,
        search_path=path,
        run_id=site.run_id,
        warn=lambda line: site.emit(Note(line, warning=True)),
        real_home=site.home,
    )
    with (
        enclosed(search, opener, site.emit) as (checkout, boundary),
        short_folder(site.private) as sockets,
    ):
        yield Room(checkout, boundary, sockets, site)


def _ground(site: Site) -> Ground:
    return Ground(site.home, site.checkout.resolve(), site.private)


def _runner(site: Site, boundary: Boundary, egress: Egress) -> Runner:
    scratch = boundary.scratch / "commands"
    scratch.mkdir(mode=0o700)
    boundary.hand_over(scratch)
    env = build_bead_env(
        site.env,
        site.settings.agent_env,
        home=scratch / "home",
        tmp=scratch / "tmp",
        checkout=site.checkout,
    )
    runner = Runner(
        folder=site.checkout,
        env={
            **env,
            "PATH": boundary.search_path(env["PATH"]),
            **boundary.git_env(),
            **egress.commands_env,
        },
        scratch=scratch,
        logs=site.logs,
        limits=lambda: Limits(timeout_s=site.left_s(), output_bytes=site.settings.max_output),
        emit=site.emit,
        confined=boundary.around(site.checkout, scratch),
    )
    runner.renew()
    return runner
