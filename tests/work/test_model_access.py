"""How long the end of a bead waits for answers that are still on their way."""

import pytest

from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.gateway.keys import BeadTicket
from gitlab_nightshift.records.bead_results import Usage
from gitlab_nightshift.work.model_access import BeadAccess


class Gateway(RemoteGateway):
    """Remembers for how long it was asked to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def close_bead(self, ticket: BeadTicket, wait_s: float = 0.0) -> Usage:
        self.waits.append(wait_s)
        return Usage(0.0, 0)


@pytest.mark.parametrize(
    ("ended_itself", "left_s", "most_s"),
    [(True, None, 120), (True, 30, 30), (True, -1, 0), (False, None, 2), (False, 1, 1)],
)
def test_only_for_an_agent_that_ended_itself_is_it_long(
    ended_itself: bool, left_s: float | None, most_s: float
) -> None:
    """One that was ended for its silence waited for an endpoint that will say nothing now."""
    gateway = Gateway()
    access = BeadAccess({}, gateway, BeadTicket("b", "p", "http://127.0.0.1:1"))
    assert access.settle_usage(left_s, ended_itself=ended_itself) == Usage(0.0, 0)
    assert gateway.waits == [most_s]


def test_without_a_gateway_nothing_is_waited_for() -> None:
    assert BeadAccess({}).settle_usage(None, ended_itself=True) is None
