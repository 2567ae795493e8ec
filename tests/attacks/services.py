"""Whoever connects gets a flag: the services of a scene, and what others on the machine do."""

import contextlib
import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import pick_port

TCP = ("tcp", "race", "shared")
Flag = Callable[[str], str]


@contextlib.contextmanager
def services(
    outside: Path, public: Path, flags: Flag, gateway: int
) -> Iterator[tuple[dict[str, int], dict[str, str], str]]:
    """Whoever connects gets a flag; that somebody did is noted, too."""
    with contextlib.ExitStack() as stack:
        serving = stack.enter_context(_serving(outside / "hits"))
        ports = {name: serving.tcp(name, "127.0.0.1", flags(name)) for name in TCP}
        ports["udp"] = serving.udp("udp", flags("udp"))
        ports |= {"offered": pick_port(), "dropped": pick_port(), "raced": pick_port()}
        with contextlib.suppress(OSError):
            ports["tcp6"] = serving.tcp("tcp6", "::1", flags("tcp6"))
        ports["mapped"] = serving.tcp("any", "", flags("any"))
        serving.tcp("elsewhere", "127.0.0.2", flags("elsewhere"), gateway)
        sockets = {
            name: str(public / f"{name}.sock") for name in ("plain", "docker", "dbus", "agent")
        }
        for name, path in sockets.items():
            serving.unix(name, path, flags(f"{name}_socket"))
        sockets["abstract"] = f"\0nightshift-attack-{os.getpid()}"
        sockets["wanted"] = f"\0nightshift-wanted-{os.getpid()}"
        serving.unix("abstract", sockets["abstract"], flags("abstract_socket"))
        for name in ("log", "syslog"):
            sockets[name] = str(public / f"{name}.sock")
            serving.datagram(name, sockets[name])
        address = _own_address()
        if address:
            ports["names"] = serving.udp("names", flags("names"), address)
        sockets["called"] = f"\0nightshift-called-{os.getpid()}"
        secret = flags("told_to_a_thief").encode()
        looks = (
            lambda: _tell(socket.AF_INET, ("127.0.0.1", ports["shared"]), secret),
            lambda: _tell(socket.AF_UNIX, sockets["called"], secret),
            lambda: _drop((address, ports["dropped"]), secret),
            lambda: _drop((address, ports["raced"]), secret),
            lambda: serving.look("offered", _answers(address, ports["offered"])),
            lambda: serving.look("wanted", _is_taken(sockets["wanted"])),
        )
        serving.start(looks)
        yield ports, sockets, address


class _Services:
    """All in one thread."""

    def __init__(self, hits: Path) -> None:
        self._hits, self._streams, self._datagrams = hits, {}, {}  # type: ignore[var-annotated]
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []

    def tcp(self, name: str, host: str, flag: str, port: int = 0) -> int:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        if name == "shared":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(64)
        self._streams[listener] = (name, flag)
        return int(listener.getsockname()[1])

    def unix(self, name: str, address: str, flag: str) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(64)
        if not address.startswith("\0"):
            Path(address).chmod(0o777)
        self._streams[listener] = (name, flag)

    def udp(self, name: str, flag: str, host: str = "127.0.0.1") -> int:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((host, 0))
        self._datagrams[server] = (name, flag)
        return int(server.getsockname()[1])

    def datagram(self, name: str, address: str) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        server.bind(address)
        Path(address).chmod(0o777)
        self._datagrams[server] = (name, "")

    def start(self, looks: Sequence[Callable[[], None]]) -> None:
        """Serve, and do again and again what others on the machine do meanwhile."""
        self.threads = [
            threading.Thread(target=self._serve),
            threading.Thread(target=self._look, args=(looks,)),
        ]
        for thread in self.threads:
            thread.start()

    def look(self, name: str, seen: bool) -> None:
        if seen:
            (self._hits / name).touch()

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for one in (*self._streams, *self._datagrams):
            one.close()

    def _serve(self) -> None:
        while not self.stopping.is_set():
            ready, _, _ = select.select([*self._streams, *self._datagrams], [], [], 0.1)
            for one in ready:
                with contextlib.suppress(OSError):
                    self._answer(one)

    def _answer(self, one: socket.socket) -> None:
        name, flag = self._streams.get(one) or self._datagrams[one]
        (self._hits / name).touch()
        if one in self._datagrams:
            _, sender = one.recvfrom(4096)
            if flag:
                one.sendto(flag.encode(), sender)
            return
        guest, _ = one.accept()
        with guest:
            guest.sendall(flag.encode())
            guest.shutdown(socket.SHUT_WR)
            guest.settimeout(0.05)
            with contextlib.suppress(OSError):
                guest.recv(65536)

    def _look(self, looks: Sequence[Callable[[], None]]) -> None:
        while not self.stopping.wait(0.02):
            for look in looks:
                with contextlib.suppress(OSError):
                    look()


def _tell(family: int, address: Any, flag: bytes) -> None:
    """A client of the job: it sends a secret to whoever has the service's address."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(address)
        client.sendall(flag)


def _drop(address: tuple[str, int], flag: bytes) -> None:
    """Somebody in the network sends a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(flag, address)


def _answers(address: str, port: int) -> bool:
    """Somebody in the network looks for a server on this machine."""
    with socket.create_connection((address, port), 1):
        return True


def _is_taken(name: str) -> bool:
    """Another program wants its name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        try:
            own.bind(name)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


@contextlib.contextmanager
def _serving(hits: Path) -> Iterator[_Services]:
    made = _Services(hits)
    try:
        yield made
    finally:
        made.stop()


def _own_address() -> str:
    """This machine's own address in its network; "" where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            udp.connect(("192.0.2.1", 53))
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH):
                raise
            return ""
        return str(udp.getsockname()[0])
