"""A small GitLab on loopback, as ``nightshift demo`` needs it: REST and real Git over HTTP.

    with Standin(folder) as gitlab:
        bot = gitlab.add_user("bot", "Night Shift")
        gitlab.add_token("glpat-1", bot, scopes=("api", "write_repository"), access_level=30)
        project = gitlab.add_project("group/project")
        ...  # push to project.http_url, drive gitlab.url by python-gitlab
        assert [each.title for each in project.merge_requests] == ["..."]

Answers, status codes and texts are GitLab's where something in this program depends on them. What
is not built is a 404, a filter that is not built a 501: nothing is silently ignored.
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from gitlab_nightshift.demo.standin_http import Handler, StandinServer
from gitlab_nightshift.demo.standin_state import State

POLL_S = 0.02


class Standin(State):
    """The stand-in: its state (see :class:`State`), served while the ``with`` block runs.

    Everything it keeps is below ``root``. Without ``paid_tier`` a merge request has one reviewer
    and one assignee, as on GitLab's free tier.
    """

    handler = Handler

    def __init__(self, root: Path, *, paid_tier: bool = True) -> None:
        self._server = StandinServer(self.handler)
        super().__init__(root, f"http://127.0.0.1:{self._server.server_port}", paid_tier=paid_tier)
        self._server.state = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.close()
