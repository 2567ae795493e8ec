"""Telling people, against real servers of each kind."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from gitlab_nightshift.stages.report.notify_process import LONGEST_S, send_to_all
from gitlab_nightshift.stages.report.result_texts import Notification
from tests.support.internet import CompanyProxy, company_proxy
from tests.support.listeners import Listener, listening
from tests.support.ports import pick_port, refusing_port
from tests.support.tls import behind_tls, make_certificate, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # apprise's own
MESSAGE = Notification("acme/shop: A merge request is open", "tests: T\n$0.10, 8 s", "success")
CHATS = {
    "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js": "discord.com",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ": "hooks.slack.com",
    "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ": (
        "hooks.slack.com"
    ),
    "workflows://prod.logic.azure.com/643e69cff8534096bd5d/b39c0a5b7c1e": "prod.logic.azure.com",
}


def tell(*addresses: str, longest_s: float = 60.0) -> list[str]:
    return send_to_all(addresses, MESSAGE, longest_s)


@pytest.fixture
def internet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[CompanyProxy, Listener]]:
    """Every host of CHATS is a local server behind TLS, reached by the job's own proxy."""
    certificate = make_certificate(tmp_path, *CHATS.values())
    with (
        listening() as there,
        behind_tls(certificate, f"http://127.0.0.1:{there.port}") as url,
        company_proxy(int(url.rpartition(":")[2])) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate / "cert.pem"))
        yield proxy, there


@pytest.mark.parametrize("address", CHATS)
def test_a_chat_gets_the_message(internet: tuple[CompanyProxy, Listener], address: str) -> None:
    proxy, there = internet
    assert tell(address) == []
    assert proxy.asked == [f"{CHATS[address]}:443"]
    [(_, body)] = there.came
    assert MESSAGE.title in body and "10, 8 s" in body


def test_plain_http_gets_the_message() -> None:
    with listening() as ntfy, listening() as other:
        assert (
            tell(f"ntfy://127.0.0.1:{ntfy.port}/nights", f"json://127.0.0.1:{other.port}/x") == []
        )
    [(_, to_ntfy)], [(path, to_other)] = ntfy.came, other.came
    assert json.loads(to_ntfy)["topic"] == "nights"
    assert MESSAGE.title in to_ntfy
    sent = json.loads(to_other)
    assert (path, sent["title"], sent["type"]) == ("/x", MESSAGE.title, "success")
    assert sent["message"] == MESSAGE.body


class Inbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.came: list[tuple[str, str]] = []

    def handle_message(self, message: object) -> None:
        payload = message.get_payload(decode=True)  # type: ignore[attr-defined]
        self.came.append((message["Subject"], payload.decode()))  # type: ignore[index]


def test_mail_gets_the_message() -> None:
    inbox = Inbox()
    server = Controller(inbox, hostname="127.0.0.1", port=pick_port())
    server.start()
    try:
        at = f"mailto://127.0.0.1:{server.port}?from=night@acme.example&to=team@acme.example"
        assert tell(f"{at}&format=text") == []
    finally:
        server.stop()
    [(subject, body)] = inbox.came
    assert subject == MESSAGE.title
    assert "$0.10, 8 s" in body


def test_each_failure_is_told_without_its_address() -> None:
    secret = "JHMHI8qBe7bk2ZwO5U711o3dV"
    with listening(500) as broken, listening() as fine, refusing_port() as port:
        told = tell(
            f"json://127.0.0.1:{broken.port}/{secret}",
            f"json://127.0.0.1:{fine.port}/{secret}",
            f"json://127.0.0.1:{port}/{secret}",
            f"nonsense://{secret}",
        )
    assert [line.partition(":")[0] for line in told] == [
        "notify, address 1",
        "notify, address 3",
        "notify, address 4",
    ]
    assert "did not take the message" in told[0]
    assert "apprise knows no such address" in told[2]
    assert secret not in "".join(told)
    assert len(fine.came) == 1


def test_a_host_that_hangs_delays_no_other_message() -> None:
    """It sends a byte whenever it is asked for one, and never ends."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not over.wait(0.2):
                connection.sendall(b"x")

    with serving(drip) as port, listening() as fine:
        told = tell(f"json://127.0.0.1:{port}/", f"json://127.0.0.1:{fine.port}/", longest_s=3.0)
        assert told == ["notify, address 1: no answer within 3 s"]
        over.set()
    assert len(fine.came) == 1
    assert LONGEST_S == 30.0
