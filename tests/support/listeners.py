"""Services that people are notified by, as local servers: what came, and one that hangs."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Listener:
    """An HTTP server that takes every message: the paths and bodies that came. ``status`` is its
    answer."""

    port: int = 0
    status: int = 200
    came: list[tuple[str, str]] = field(default_factory=list)

    @property
    def texts(self) -> str:
        return "\n".join(body for _, body in self.came)


@contextlib.contextmanager
def listening(status: int = 200) -> Iterator[Listener]:
    """A listener on the loopback device."""
    made = Listener(status=status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            made.came.append((self.path, body))
            said = b"ok"
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving_http(Handler) as made.port:
        yield made


@contextlib.contextmanager
def serving_http(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server on the loopback device; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
