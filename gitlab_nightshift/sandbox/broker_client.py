"""The broker of a process that reads what agents write (``inside/broker_service.py``): its start,
and what it is asked for."""

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
from gitlab_nightshift.sandbox.inside import kernel, privileges, seccomp
from gitlab_nightshift.sandbox.inside.broker_service import ANSWER_BYTES
from gitlab_nightshift.sandbox.system_paths import INSIDE, build_python_command

NO_LISTENER = (errno.EBUSY, errno.EINVAL)
"""Another program is listening already, or the kernel is too old: then agents' monitor cannot
either, and they may change attributes themselves."""
END_S = 5.0
GONE = (
    "the broker, which starts agents and commands, was killed, perhaps for lack of memory: give the"
    " job more, and start it again"
)


@dataclass(frozen=True)
class BrokerTerms:
    """What the broker may do: ``folders`` are those whose files' attributes it changes and that
    agents may write (absolute, without links), ``shared`` what agents may write besides. They are
    the user ``uid`` with the group ``gid`` (None: this process's own), confined by this ABI of
    Landlock."""

    folders: tuple[str, ...]
    shared: tuple[str, ...]
    uid: int | None
    gid: int | None
    landlock: int

    def to_data(self) -> bytes:
        """As JSON for ``inside/broker_service.py``."""
        fixed = {"uid": self.uid, "gid": self.gid, "landlock": self.landlock}
        return json.dumps({"folders": self.folders, "shared": self.shared, "fixed": fixed}).encode()


@dataclass(frozen=True)
class Broker:
    """One that serves this process."""

    _channel: socket.socket
    _process: "subprocess.Popen[bytes]"
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def start(self, argv: Sequence[str], spec: int, status: int) -> "subprocess.Popen[bytes]":
        """A launcher with this spec and status pipe, which is a child of this process with three
        pipes and a session of its own. Once for a spec. Raises OSError, NightshiftError."""
        return _LaunchedProcess(self, argv, spec, status)

    def ask(self, descriptors: Sequence[int]) -> int:
        """The pid of what it starts with these. Raises OSError where it refuses, NightshiftError
        (``E_TERMINATED``) where it has ended."""
        with self._asking:
            try:
                socket.send_fds(self._channel, [b"."], descriptors)
                return _read_answer(self._channel)
            except ConnectionError:
                raise NightshiftError(Code.TERMINATED, GONE) from None

    @contextlib.contextmanager
    def explain_end(self, *kinds: type[Exception]) -> Iterator[None]:
        """Raise NightshiftError (``E_TERMINATED``) instead of exceptions of these ``kinds`` in
        the block where this has ended: the kernel refuses changes of attributes then."""
        try:
            yield
        except kinds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)  # its listener is closed before it has ended
                raise NightshiftError(Code.TERMINATED, GONE) from None
            raise


class _LaunchedProcess(subprocess.Popen[bytes]):
    """What ``subprocess`` makes of a child that another process has started."""

    def __init__(self, broker: Broker, argv: Sequence[str], spec: int, status: int) -> None:
        self._broker, self._given = broker, (spec, status)
        pipe = subprocess.PIPE
        super().__init__(argv, stdin=pipe, stdout=pipe, stderr=pipe)

    def _execute_child(self, *arguments: Any) -> None:
        """Instead of fork and exec; from the tenth on the arguments are the ends of the pipes."""
        pipes = arguments[10:16]
        stdin, _, _, stdout, _, stderr = pipes
        try:
            self.pid = self._broker.ask((*self._given, stdin, stdout, stderr))
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def start_broker(terms: BrokerTerms) -> Broker | None:
    """Hand the right to change attributes, and to start what may, over to a broker: this process,
    which has one thread, and what it starts itself lose both for good. None where the kernel gives
    no listener. Raises OSError where no broker comes up.

    It is confined as this process is now, and has its capabilities. It looks into this process's
    memory and descriptors, as a process of the same user may from now on that Landlock lets.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = _start_process(theirs.fileno())
    privileges.disable_core_dumps()
    try:
        listener = seccomp.install(seccomp.build_attribute_filter(), listening=True)
    except OSError as error:
        ours.close()
        process.wait()
        if error.errno in NO_LISTENER:
            return None
        raise
    kernel.call_prctl(kernel.PR_SET_DUMPABLE, 1)
    assert listener is not None
    _hand_over(ours, terms, listener)
    return Broker(ours, process)


def _start_process(channel: int) -> "subprocess.Popen[bytes]":
    command = build_python_command(str(INSIDE / "broker.py"), str(channel), str(os.getpid()))
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
    told = os.memfd_create("terms", os.MFD_CLOEXEC)
    try:
        os.write(told, terms.to_data())
        socket.send_fds(channel, [b"."], [told, listener])
        _read_answer(channel)
    finally:
        os.close(told)
        os.close(listener)


def _read_answer(channel: socket.socket) -> int:
    """A pid. Raises OSError where it is an error's number, or the broker is gone."""
    if len(said := channel.recv(ANSWER_BYTES)) != ANSWER_BYTES:
        raise OSError(errno.EPIPE, "the broker is gone")
    if (number := int.from_bytes(said, "little", signed=True)) < 0:
        raise OSError(-number, os.strerror(-number))
    return number
