"""What stops a run, and only during it."""

import signal

from gitlab_nightshift.run.supervisor.stop_signals import Signals

STOPPING = (signal.SIGINT, signal.SIGTERM)


def test_after_a_run_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with Signals():
        assert not {*before} & {signal.getsignal(number) for number in STOPPING}
    assert [signal.getsignal(number) for number in STOPPING] == before
