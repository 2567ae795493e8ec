"""Starts the broker of a process that reads what agents write (``inside/broker_service.py``), and
sends it requests."""

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
"""Seconds for a broker whose listener is closed to be gone."""
BROKER_ENDED = (
    "the broker, which starts agents and commands, was killed, perhaps for lack of memory: give the"
    " job more, and start it again"
)


@dataclass(frozen=True)
class BrokerTerms:
    """The rights of a broker. It changes attributes of files in ``folders`` (absolute, links
    resolved), which agents may write; ``shared`` are other folders that agents may write. Agents
    run as ``uid`` and ``gid`` (None: this process's own), confined by Landlock ABI ``landlock``."""

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
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def start(self, argv: Sequence[str], spec: int, status: int) -> "subprocess.Popen[bytes]":
        """Start a launcher as a child of this process, with three pipes and its own session.
        ``spec`` and ``status`` are descriptors: the spec, for one start only, and the status pipe.
        Raises OSError, NightshiftError."""
        return _LaunchedProcess(self, argv, spec, status)

    def ask(self, descriptors: Sequence[int]) -> int:
        """Start a launcher with these descriptors; returns its pid. Raises OSError if the broker
        refuses, NightshiftError (``E_TERMINATED``) if it has ended."""
        with self._asking:
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

    def __init__(self, broker: Broker, argv: Sequence[str], spec: int, status: int) -> None:
        self._broker, self._descriptors = broker, (spec, status)
        pipe = subprocess.PIPE
        super().__init__(argv, stdin=pipe, stdout=pipe, stderr=pipe)

    def _execute_child(self, *arguments: Any) -> None:
        """Replaces fork and exec. Arguments 10 to 15 are the ends of the pipes, in the order
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite (CPython's subprocess.py)."""
        pipes = arguments[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        try:
            self.pid = self._broker.ask((*self._descriptors, stdin, stdout, stderr))
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def start_broker(terms: BrokerTerms) -> Broker | None:
    """Start a broker. From here on only it may change attributes, and start processes that may:
    this process, which must have one thread, and its own children lose both for good. Returns None
    if the kernel gives no listener. Raises OSError if the broker does not start.

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
    """Give the broker what it needs, and wait until it serves."""
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
    if len(answer := channel.recv(ANSWER_BYTES)) != ANSWER_BYTES:
        raise OSError(errno.EPIPE, "the broker is gone")
    if (number := int.from_bytes(answer, "little", signed=True)) < 0:
        raise OSError(-number, os.strerror(-number))
    return number
