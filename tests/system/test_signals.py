"""SIGINT and SIGTERM become one exception, which can be deferred, and is raised only once."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from gitlab_nightshift.errors import Code, Interruption
from gitlab_nightshift.system.signals import defer_signals, enable_cancellation

CODES = [(signal.SIGINT, Code.INTERRUPTED), (signal.SIGTERM, Code.TERMINATED)]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_becomes_an_interruption(number: int, code: Code) -> None:
    with pytest.raises(Interruption) as caught, enable_cancellation():
        send(number)
        pytest.fail("nothing came")
    assert caught.value.code is code


def test_the_old_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number, _ in CODES]
    with pytest.raises(ZeroDivisionError), enable_cancellation():
        assert [signal.getsignal(number) for number, _ in CODES] != before
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number, _ in CODES] == before


def test_a_second_signal_does_not_interrupt_the_clean_up() -> None:
    cleaned: list[str] = []
    with pytest.raises(Interruption) as caught, enable_cancellation():
        try:
            send(signal.SIGTERM)
        finally:
            send(signal.SIGINT)
            send(signal.SIGTERM)
            with defer_signals():
                send(signal.SIGTERM)
            cleaned.append("all")
    assert caught.value.code is Code.TERMINATED
    assert cleaned == ["all"]


def test_a_signal_is_deferred_to_the_end_of_the_block() -> None:
    done: list[str] = []
    with pytest.raises(Interruption) as caught, enable_cancellation():
        with defer_signals():
            send(signal.SIGTERM)
            send(signal.SIGINT)
            done.append("inside")
        done.append("after")
    assert (done, caught.value.code) == (["inside"], Code.TERMINATED)


def test_deferring_blocks_can_be_nested() -> None:
    done: list[str] = []
    with pytest.raises(Interruption), enable_cancellation(), defer_signals():
        with defer_signals():
            send(signal.SIGTERM)
        done.append("outer")
    assert done == ["outer"]


def test_a_signal_in_a_block_that_fails_is_not_lost() -> None:
    with pytest.raises(Interruption) as caught, enable_cancellation(), defer_signals():
        send(signal.SIGTERM)
        raise ZeroDivisionError
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_without_a_signal_an_error_passes() -> None:
    with pytest.raises(ZeroDivisionError), enable_cancellation(), defer_signals():
        raise ZeroDivisionError


def test_signals_can_be_deferred_without_cancellation() -> None:
    with defer_signals():
        pass


def test_an_inner_block_has_its_own_interruption() -> None:
    with enable_cancellation():
        with pytest.raises(Interruption), enable_cancellation():
            send(signal.SIGTERM)
        with pytest.raises(Interruption):
            send(signal.SIGINT)


def test_only_the_main_thread_is_interrupted() -> None:
    seen: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def other() -> None:
        try:
            with defer_signals():
                inside.set()
                go_on.wait(60)
            seen.append("ended")
        except BaseException as error:
            seen.append(repr(error))

    thread = threading.Thread(target=other)
    with pytest.raises(Interruption), enable_cancellation():
        try:
            thread.start()
            inside.wait(60)
            send(signal.SIGTERM)
            seen.append("not interrupted")
        finally:
            go_on.set()
            thread.join(60)
    assert seen == ["ended"]


PROGRAM = """
import sys, time
from gitlab_nightshift.errors import Interruption
from gitlab_nightshift.system.signals import enable_cancellation
try:
    with enable_cancellation():
        try:
            print("ready", flush=True)
            time.sleep(120)
        finally:
            time.sleep(0.3)
            print("tidy", flush=True)
except Interruption as stop:
    sys.exit(stop.code.exit_status)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_program_cleans_up_first(number: int, status: int) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"ready\n"
        program.send_signal(number)
        program.send_signal(signal.SIGTERM)
        assert program.stdout.read() == b"tidy\n"
        assert program.wait(60) == status
