"""Starts the broker (``inside/broker_service.py``) of a process that reads what agents write, and
sends requests to it."""

import contextlib
import errno
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.sandbox.inside import privileges, seccomp, syscalls
from gitlab_nightshift.sandbox.inside.broker_service import ANSWER_BYTES
from gitlab_nightshift.sandbox.system_paths import build_inside_command

NO_LISTENER = (errno.EBUSY, errno.EINVAL)
"""The errors if a filter above already has a listener, or if the kernel is too old (seccomp(2)).
Then agents cannot have a monitor either, and change attributes themselves."""
END_S = 5.0
"""Seconds to wait for the end of a broker whose listener is closed."""
BROKER_ENDED = (
    "the broker, which starts agents and commands, was killed, perhaps for lack of memory: give the"
    " job more, and start it again"
)


@dataclass(frozen=True)
class BrokerTerms:
    """The rights of a broker. Agents may write ``folders`` (absolute, links resolved) and
    ``shared``; only in ``folders`` the broker changes attributes. Agents run as ``uid`` and ``gid``
    (None: as this process does), confined by Landlock ABI ``landlock``."""

    folders: tuple[str, ...]
    shared: tuple[str, ...]
    uid: int | None
    gid: int | None
    landlock: int

    def encode(self) -> bytes:
        """As JSON for ``inside/broker_service.py``."""
        fixed = {"uid": self.uid, "gid": self.gid, "landlock": self.landlock}
        return json.dumps({"folders": self.folders, "shared": self.shared, "fixed": fixed}).encode()


@dataclass(frozen=True)
class Broker:
    """The broker that serves this process, with the socket to it."""

    _channel: socket.socket
    _process: "subprocess.Popen[bytes]"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, argv: Sequence[str], spec_fd: int, status_fd: int) -> "subprocess.Popen[bytes]":
        """Start a launcher as a child of this process, with three pipes and its own session. The
        descriptors are those of the spec, for one start only, and of the status pipe. Raises
        OSError, NightshiftError."""
        return _LaunchedProcess(self, argv, spec_fd, status_fd)

    def request_launch(self, descriptors: Sequence[int]) -> int:
        """Have the broker start a launcher with these descriptors; returns its pid. Raises OSError
        if the broker refuses, NightshiftError (``E_TERMINATED``) if it has ended."""
        with self._lock:
            try:
                socket.send_fds(self._channel, [b"."], descriptors)
                return _read_answer(self._channel)
            except ConnectionError:
                raise NightshiftError(Code.TERMINATED, BROKER_ENDED) from None

    @contextlib.contextmanager
    def explain_end(self, *kinds: type[Exception]) -> Iterator[None]:
        """Turn exceptions of these ``kinds`` into NightshiftError (``E_TERMINATED``) if the broker
        has ended: the kernel then refuses changes of attributes."""
        try:
            yield
        except kinds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # A moment: the kernel closes the listener before it reports the end.
                self._process.wait(END_S)
                raise NightshiftError(Code.TERMINATED, BROKER_ENDED) from None
            raise


class _LaunchedProcess(subprocess.Popen[bytes]):
    """A ``Popen`` for a child of this process that the broker has started (CLONE_PARENT)."""

    def __init__(self, broker: Broker, argv: Sequence[str], spec_fd: int, status_fd: int) -> None:
        self._broker, self._descriptors = broker, (spec_fd, status_fd)
        pipe = subprocess.PIPE
        super().__init__(argv, stdin=pipe, stdout=pipe, stderr=pipe)

    def _execute_child(self, *arguments: Any) -> None:
        """Replaces fork and exec. Arguments 10 to 15 are the ends of the pipes, in the order
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite (CPython's subprocess.py)."""
        pipes = arguments[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        try:
            self.pid = self._broker.request_launch((*self._descriptors, stdin, stdout, stderr))
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def start_broker(terms: BrokerTerms) -> Broker | None:
    """Start a broker. From here on only the broker, and processes that it starts, may change
    attributes: this process, which must have one thread, and its own children never again. Returns
    None if the kernel gives no listener. Raises OSError if the broker does not start.

    The broker is confined as this process is now, and has its capabilities. It reads this process's
    memory and descriptors, which from now on any process of the same user may, unless Landlock
    stops it.
    """
    # SEQPACKET keeps messages apart (unix(7)): descriptors of two requests cannot be mixed up.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = _start_process(theirs.fileno())  # before the filter, which it would inherit
    privileges.disable_core_dumps()
    try:
        listener = seccomp.install(seccomp.build_attribute_filter(), listening=True)
    except OSError as error:
        ours.close()
        process.wait()  # it ends as its socket is closed
        if error.errno in NO_LISTENER:
            return None
        raise
    # Else /proc/<pid>/mem and fd belong to root, and the broker could not read the arguments.
    syscalls.call_prctl(syscalls.PR_SET_DUMPABLE, 1)
    assert listener is not None
    _hand_over(ours, terms, listener)
    return Broker(ours, process)


def _start_process(channel: int) -> "subprocess.Popen[bytes]":
    command = build_inside_command("broker_service", str(channel), str(os.getpid()))
    return subprocess.Popen(
        command,
        cwd="/",
        env={},
        pass_fds=(channel,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _hand_over(channel: socket.socket, terms: BrokerTerms, listener: int) -> None:
    """Send the broker its terms and the listener, and wait until it is ready."""
    terms_fd = os.memfd_create("terms", os.MFD_CLOEXEC)
    try:
        os.write(terms_fd, terms.encode())
        socket.send_fds(channel, [b"."], [terms_fd, listener])
        _read_answer(channel)
    finally:
        os.close(terms_fd)
        os.close(listener)


def _read_answer(channel: socket.socket) -> int:
    """The pid in an answer. Raises OSError if the answer is an error number or the broker is
    gone."""
    answer = channel.recv(ANSWER_BYTES)
    if len(answer) != ANSWER_BYTES:
        raise OSError(errno.EPIPE, "the broker is gone")
    number = int.from_bytes(answer, "little", signed=True)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return number
