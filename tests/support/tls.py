"""Servers behind TLS, with a certificate of nobody's authority."""

import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.programs import need_program


def make_certificate(folder: Path, *hosts: str) -> Path:
    """A key and a certificate for 127.0.0.1, models.test and ``hosts``; returns the folder."""
    need_program("openssl")
    parts = ("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout key.pem").split()
    listed = ",DNS:".join(("subjectAltName=IP:127.0.0.1", "models.test", *hosts))
    names = ["-addext", listed, "-out", "cert.pem"]
    subprocess.run(
        ["openssl", *parts, *names], cwd=folder, check=True, capture_output=True, timeout=60
    )
    return folder


@contextmanager
def serving(handle: object) -> Iterator[int]:
    """A server that gives each connection to a function; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()  # type: ignore[arg-type]

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@contextmanager
def behind_tls(certificate: Path, url: str) -> Iterator[str]:
    """The address of a server that passes all on to the one at ``url``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    port = int(url.rpartition(":")[2])

    def handle(plain: socket.socket) -> None:
        with (
            suppress(OSError),
            context.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(("127.0.0.1", port)) as server,
        ):
            while _passed_on(client, server):
                pass

    with serving(handle) as at:
        yield f"https://127.0.0.1:{at}"


def _passed_on(client: ssl.SSLSocket, server: socket.socket) -> bool:
    """Pass on what is there from either side; False at the end of one."""
    ready = [client] if client.pending() else select.select([client, server], [], [])[0]
    for source in ready:
        if not (data := source.recv(65536)):
            return False
        (server if source is client else client).sendall(data)
    return True
