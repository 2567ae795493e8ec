"""The gateway as a real process: what it has in memory, what it can open, and when it ends."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.gateway.gateway_start import GatewayProcess, start_gateway
from gitlab_nightshift.gateway.prices import KNOWN_RATES
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from gitlab_nightshift.records.codec import decode_record, encode_record
from gitlab_nightshift.records.events import Event, Note
from gitlab_nightshift.records.usage import SpendingLimit, Usage
from gitlab_nightshift.sandbox import stage_process
from gitlab_nightshift.sandbox.inside import landlock
from tests.gateway.test_upstream import certificate  # noqa: F401 - a fixture
from tests.gateway.tools import (
    KEY,
    MODEL,
    RawEndpoint,
    about,
    ask,
    hang,
    json_answer,
    message,
    sum_reported_usage,
)
from tests.support.model_endpoint import ModelEndpoint
from tests.support.stages import real_start
from tests.support.tls import behind_tls
from tests.support.trees import wait_for
from tests.support.turns import say

ENV = {"LANG": "C.UTF-8", "ANTHROPIC_API_KEY": KEY, "HOME": "/root"}
ANSWER = {"type": "message", "usage": {"input_tokens": 1000, "output_tokens": 100}}


def config(url: str, env: dict[str, str] | None = None, **fields: Any) -> GatewayConfig:
    upstream = build_upstream(ModelKey("ANTHROPIC_API_KEY", KEY), url, env or {})
    base = GatewayConfig(upstream, KNOWN_RATES, 1.0, SpendingLimit(2.0), (MODEL,))
    return replace(base, **fields)


@pytest.fixture(autouse=True)
def _really_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """By exec, as a fork would have the environment of the tests."""
    monkeypatch.setattr(stage_process, "start_stage", real_start)


@contextmanager
def running(
    config: GatewayConfig, events: list[Event]
) -> Iterator[tuple[GatewayProcess, RemoteGateway]]:
    with start_gateway(ENV) as started:
        started.configure(encode_record(config))
        yield started, RemoteGateway(started.control, events.append)


def has_ended(pid: int) -> bool:
    with suppress(OSError):
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


def read_memory(pid: int) -> bytes:
    """All writable memory of a process."""
    contents = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:  # noqa: PTH123
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(address, 16) for address in span.split("-"))
                with suppress(OSError):
                    file.seek(start)
                    contents.append(file.read(end - start))
    return b"".join(contents)


def test_a_configuration_is_decoded_as_it_was_encoded(tmp_path: Path) -> None:
    ca, proxies = tmp_path / "ca.pem", {"HTTPS_PROXY": "http://me:sesame@proxy.corp:3128"}
    env = {"SSL_CERT_FILE": str(ca), "SSL_CERT_DIR": str(tmp_path), **proxies}
    env |= {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: sesame-of-the-team"}
    full = config("https://models.example.org", env, egress_hosts=("a.org",), proxies=proxies)
    for each in (full, replace(full, upstream=None, limit=SpendingLimit(tokens=7))):
        assert decode_record(GatewayConfig, encode_record(each)) == each
    assert "sesame" not in repr(full)
    assert KEY not in repr(full)


def test_a_run(tmp_path: Path) -> None:
    events: list[Event] = []
    with RawEndpoint(json_answer(200, ANSWER)) as endpoint, ExitStack() as stack:
        url = endpoint.url.replace("127.0.0.1", "localhost")  # a name, to be looked up
        context = running(config(url, egress_hosts=("example.org",)), events)
        started, remote = stack.enter_context(context)
        service = remote.listen("model", tmp_path / "gateway")
        assert (tmp_path / "gateway").stat().st_mode & 0o777 == 0o600
        assert remote.listen("egress", tmp_path / "egress").port != service.port
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=1000.0)
        assert ask(ticket, message()) == 200
        assert f"X-Api-Key: {KEY}".encode() in endpoint.requests[0]
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(started.process.pid, number)
        assert ask(ticket, message()) == 200, "signals are ignored"
        egress = remote.open_egress("analyze")
        assert b"403" in _connect(tmp_path / "egress", egress.credential, "127.0.0.1:80")
        assert remote.close_egress(egress).hosts == ()
        assert [event.text for event in events if isinstance(event, Note)] == [
            "egress, analyze: '127.0.0.1:80' refused: not in policy.egress_hosts"
        ]
        proc = Path("/proc") / str(started.process.pid)
        for name in ("environ", "cmdline"):
            assert KEY.encode() not in (proc / name).read_bytes(), name
        assert (proc / "environ").read_bytes() == b"LANG=C.UTF-8\0"
        usage = remote.close_bead(ticket, 60)
        assert usage == remote.read_state(ticket).usage == Usage(about(0.009), 2200)
        remote.close()
        assert started.process.wait(60) == 0
        assert sum_reported_usage(started.report.read()).cost_usd == about(0.009)


def _connect(path: Path, credential: str, target: str) -> bytes:
    code = base64.b64encode(f"nightshift:{credential}".encode()).decode()
    head = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {code}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(head.encode())
        return connection.recv(65536)


def test_an_unusable_ca_file_is_named(tmp_path: Path) -> None:
    invalid = tmp_path / "ca.pem"
    invalid.write_text("no certificate")
    with (
        running(config("https://127.0.0.1:9", {"SSL_CERT_FILE": str(invalid)}), []) as (_, remote),
        pytest.raises(NightshiftError, match=f"the CA file {invalid} cannot be used"),
    ):
        remote.listen("model", tmp_path / "gateway")


def test_the_process_ends_with_an_empty_configuration() -> None:
    with start_gateway(ENV) as started:
        started.configure(b"")
        assert started.process.wait(60) == 0


def close_report(started: GatewayProcess) -> None:
    started.report.close()


def close_control(started: GatewayProcess) -> None:
    started.control.close()


@pytest.mark.parametrize("close", [close_report, close_control])
def test_the_process_ends_with_its_reader_or_client(
    close: Callable[[GatewayProcess], None], tmp_path: Path
) -> None:
    """Even if a request is pending."""
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        running(config(endpoint.url), []) as (started, remote),
    ):
        remote.listen("model", tmp_path / "gateway")
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=2.0)
        with subprocess.Popen([sys.executable, "-c", ASKS, ticket.base_url, ticket.placeholder]):
            wait_for(lambda: endpoint.requests, "the request is forwarded")
            close(started)
            assert started.process.wait(60) == 0
        if close is close_control:
            assert sum_reported_usage(started.report.read()).assumed_usd > 0, "it is billed"


def test_the_process_ends_with_its_block_even_if_another_process_holds_the_socket(
    tmp_path: Path,
) -> None:
    with running(config("http://127.0.0.1:9"), []) as (started, remote):
        remote.listen("model", tmp_path / "gateway")
        copy = started.control.dup()
    with copy:
        assert started.process.wait(60) == 0, "by itself, not by a signal"


ASKS = f"""
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1].removeprefix("http://"))
body = {{"model": "{MODEL}", "max_tokens": 2000, "messages": [{{"role": "user", "content": "Hi"}}]}}
headers = {{"content-type": "application/json", "x-api-key": sys.argv[2]}}
connection.request("POST", "/v1/messages", json.dumps(body), headers)
try:
    connection.getresponse()
except (OSError, http.client.HTTPException):
    pass
"""


def test_a_killed_process_has_reported_its_pending_requests(tmp_path: Path) -> None:
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        running(config(endpoint.url), []) as (started, remote),
    ):
        remote.listen("model", tmp_path / "gateway")
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=2.0)
        with subprocess.Popen([sys.executable, "-c", ASKS, ticket.base_url, ticket.placeholder]):
            wait_for(lambda: endpoint.requests, "the request is forwarded")
            reports = started.report.read(1 << 16)
            started.process.kill()
            started.process.wait(60)
        assert remote.read_state(ticket).unusable == "the model gateway has ended"
        assert remote.close_bead(ticket, 60) == Usage(None, None)
        assert sum_reported_usage(reports or b"").assumed_usd > 0.03


STARTS = """
import sys
from gitlab_nightshift.gateway.gateway_start import start_gateway
with start_gateway({}) as started:
    started.configure(sys.stdin.buffer.read())
    print(started.process.pid, flush=True)
    started.process.wait()
"""


def test_the_process_ends_if_its_parent_is_killed() -> None:
    for moment in ("loading", "serving"):
        argv = [sys.executable, "-c", STARTS]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdin and parent.stdout
            parent.stdin.write(encode_record(config("http://127.0.0.1:9")))
            parent.stdin.close()
            pid = int(parent.stdout.readline())
            if moment == "serving":
                wait_for(lambda pid=pid: _is_serving(pid), "it serves")
            parent.kill()
        wait_for(lambda pid=pid: has_ended(pid), f"its end while {moment}")


def _is_serving(pid: int) -> bool:
    """True once the event loop has opened its file."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    with suppress(OSError):
        return any("eventpoll" in str(link.readlink()) for link in links)
    return False


WORK = """
import json, socket, sys
from gitlab_nightshift.gateway.gateway_client import RemoteGateway
from pathlib import Path
folder, model = sys.argv[2:]
remote = RemoteGateway(socket.socket(fileno=int(sys.argv[1])), print)
remote.listen("model", Path(folder) / "gateway")
ticket = remote.open_bead("analyze", {model}, budget_usd=1.0)
print(json.dumps([ticket.base_url, ticket.placeholder]), flush=True)
sys.stdin.read()
"""
THREAD = """
import json, sys
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.records.codec import decode_record
from tests.gateway.tools import RunningGateway
config = decode_record(GatewayConfig, sys.stdin.buffer.readline())
with RunningGateway(config.upstream, print) as gateway:
    ticket = gateway.open_bead("analyze", set(config.models), budget_usd=1.0)
    print(json.dumps([ticket.base_url, ticket.placeholder]), flush=True)
    sys.stdin.read()
"""


def read_memory_of_work(work: "subprocess.Popen[bytes]") -> bytes:
    """The memory of work whose agent has sent a request to the model."""
    assert work.stdin and work.stdout
    base_url, placeholder = json.loads(work.stdout.readline())
    subprocess.run([sys.executable, "-c", ASKS, base_url, placeholder], check=True)
    memory = read_memory(work.pid)
    assert placeholder.encode() in memory, "secrets in it are found"
    return memory


def test_work_never_has_the_key(tmp_path: Path) -> None:
    with RawEndpoint(json_answer(200, ANSWER)) as endpoint:
        config_json = encode_record(config(endpoint.url))
        with start_gateway(ENV) as started:
            started.configure(config_json)
            control = started.control.fileno()
            argv = [sys.executable, "-c", WORK, str(control), str(tmp_path), MODEL]
            with subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[control]
            ) as work:
                assert KEY.encode() not in read_memory_of_work(work)
                files = {os.readlink(f) for f in Path(f"/proc/{work.pid}/fd").iterdir()}  # noqa: PTH115
                report = os.readlink(f"/proc/self/fd/{started.report.fileno()}")  # noqa: PTH115
                assert report not in files, "work cannot forge reports"
                work.communicate()
        assert len(endpoint.requests) == 1
        argv = [sys.executable, "-c", THREAD]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        ) as work:
            assert work.stdin
            work.stdin.write(config_json + b"\n")
            work.stdin.flush()
            assert KEY.encode() in read_memory_of_work(work), "with the gateway in a thread it has"
            work.communicate()


LOOKS = """
import json, os, sys
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.records.codec import decode_record
from gitlab_nightshift.gateway import control_socket
config, folder = decode_record(GatewayConfig, sys.stdin.buffer.read()), sys.argv[1]
LOOKED_UP = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services")
if sys.argv[2] == "confined":
    control_socket.confine(config)
def attempt(do):
    try:
        do()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "done"
outcomes = {name: attempt(do) for name, do in {
    "CA file": lambda: open(f"{folder}/ca.pem").close(),
    "names": lambda: [open(each).close() for each in LOOKED_UP if os.path.exists(each)],
    "library": lambda: __import__("encodings.cp037"),
    "secret": lambda: open(f"{folder}/secret").close(),
    "list": lambda: os.listdir(folder),
    "write": lambda: open(f"{folder}/new", "w").close(),
    "remove": lambda: os.unlink(f"{folder}/secret"),
    "environ": lambda: open("/proc/1/environ").close(),
    "home": lambda: os.listdir(os.path.expanduser("~")),
}.items()}
print(json.dumps(outcomes))
"""
PUBLIC = {"CA file", "names", "library"}


def test_the_process_can_open_only_public_files(tmp_path: Path) -> None:
    if not landlock.read_abi():
        pytest.skip("this kernel has no Landlock")
    for name in ("ca.pem", "secret"):
        (tmp_path / name).write_text("a text")
    env = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
    config_json = encode_record(config("https://127.0.0.1:9", env))

    def look(mode: str) -> dict[str, str]:
        argv = [sys.executable, "-c", LOOKS, str(tmp_path), mode]
        outcomes: dict[str, str] = json.loads(subprocess.check_output(argv, input=config_json))
        return outcomes

    confined = look("confined")
    assert {name for name, outcome in confined.items() if outcome == "done"} == PUBLIC, confined
    refused = {name: outcome for name, outcome in confined.items() if name not in PUBLIC}
    assert all(each.startswith("PermissionError") for each in refused.values()), refused
    free = look("free")
    unreadable_anyway = {"environ", "home"}
    assert {name for name, each in free.items() if each != "done"} <= unreadable_anyway, free


def test_a_private_ca_works_in_the_confined_process(tmp_path: Path, certificate: Path) -> None:  # noqa: F811
    with ModelEndpoint([say("Hi")]) as endpoint, behind_tls(certificate, endpoint.url) as url:
        env = {"SSL_CERT_FILE": str(certificate / "cert.pem")}
        with running(config(url, env), []) as (_, remote):
            remote.listen("model", tmp_path / "gateway")
            ticket = remote.open_bead("analyze", {MODEL}, budget_usd=1.0)
            assert ask(ticket, message()) == 200


def test_the_process_loads_no_settings_and_no_pydantic() -> None:
    """Without them it starts in half the time, and needs less memory."""
    module = "gitlab_nightshift.gateway.gateway_process"
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = done.stdout.split()
    assert module in names
    assert not {"pydantic", "yaml", "gitlab", "gitlab_nightshift.settings"} & set(names)
