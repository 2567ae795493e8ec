"""Signal handlers during and after a run."""

import signal

from gitlab_nightshift.run.supervisor.stop_signals import Signals

STOPPING = (signal.SIGINT, signal.SIGTERM)


def test_signal_handlers_are_restored_after_a_run() -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    with Signals():
        assert not {*before} & {signal.getsignal(number) for number in STOPPING}
    assert [signal.getsignal(number) for number in STOPPING] == before
