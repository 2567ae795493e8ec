"""The gateway as a real process: what it holds, what it sees, and when it ends."""

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
USED = {"type": "message", "usage": {"input_tokens": 1000, "output_tokens": 100}}


def config(url: str, env: dict[str, str] | None = None, **more: Any) -> GatewayConfig:
    way = build_upstream(ModelKey("ANTHROPIC_API_KEY", KEY), url, env or {})
    return replace(GatewayConfig(way, KNOWN_RATES, 1.0, SpendingLimit(2.0), (MODEL,)), **more)


@pytest.fixture(autouse=True)
def _really_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """By exec: a fork would have the environment of the tests."""
    monkeypatch.setattr(stage_process, "start_stage", real_start)


@contextmanager
def running(
    made: GatewayConfig, told: list[Event]
) -> Iterator[tuple[GatewayProcess, RemoteGateway]]:
    with start_gateway(ENV) as started:
        started.configure(encode_record(made))
        yield started, RemoteGateway(started.control, told.append)


def gone(pid: int) -> bool:
    with suppress(OSError):
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


def memory(pid: int) -> bytes:
    """All that a process has written into its memory."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:  # noqa: PTH123
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                low, high = (int(part, 16) for part in span.split("-"))
                with suppress(OSError):
                    file.seek(low)
                    found.append(file.read(high - low))
    return b"".join(found)


def test_a_configuration_is_decoded_as_it_was_encoded(tmp_path: Path) -> None:
    ca, proxies = tmp_path / "ca.pem", {"HTTPS_PROXY": "http://me:sesame@proxy.corp:3128"}
    env = {"SSL_CERT_FILE": str(ca), "SSL_CERT_DIR": str(tmp_path), **proxies}
    env |= {"ANTHROPIC_CUSTOM_HEADERS": "X-Team: sesame-of-the-team"}
    full = config("https://models.example.org", env, egress_hosts=("a.org",), proxies=proxies)
    for made in (full, replace(full, upstream=None, limit=SpendingLimit(tokens=7))):
        assert decode_record(GatewayConfig, encode_record(made)) == made
    assert "sesame" not in repr(full)
    assert KEY not in repr(full)


def test_a_run(tmp_path: Path) -> None:
    told: list[Event] = []
    with RawEndpoint(json_answer(200, USED)) as endpoint, ExitStack() as stack:
        url = endpoint.url.replace("127.0.0.1", "localhost")  # a name, to be looked up
        made = config(url, egress_hosts=("example.org",))
        started, remote = stack.enter_context(running(made, told))
        gate = remote.listen("model", tmp_path / "gateway")
        assert (tmp_path / "gateway").stat().st_mode & 0o777 == 0o600
        assert remote.listen("egress", tmp_path / "egress").port != gate.port
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=1000.0)
        assert ask(ticket, message()) == 200
        assert f"X-Api-Key: {KEY}".encode() in endpoint.requests[0]
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(started.process.pid, number)
        assert ask(ticket, message()) == 200, "signals are for the work; its bill is settled"
        refused, allowed = remote.open_egress("analyze"), (tmp_path / "egress")
        assert b"403" in _connected(allowed, refused.credential, "127.0.0.1:80")
        assert remote.close_egress(refused).hosts == ()
        assert [e.text for e in told if isinstance(e, Note)] == [
            "egress, analyze: '127.0.0.1:80' refused: not in policy.egress_hosts"
        ]
        place = Path("/proc") / str(started.process.pid)
        for name in ("environ", "cmdline"):
            assert KEY.encode() not in (place / name).read_bytes(), name
        assert (place / "environ").read_bytes() == b"LANG=C.UTF-8\0"
        used = remote.close_bead(ticket, 60)
        assert used == remote.read_state(ticket).usage == Usage(about(0.009), 2200)
        remote.close()
        assert started.process.wait(60) == 0
        assert sum_reported_usage(started.report.read()).cost_usd == about(0.009)


def _connected(path: Path, credential: str, target: str) -> bytes:
    import base64

    code = base64.b64encode(f"nightshift:{credential}".encode()).decode()
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(str(path))
        one.sendall(
            f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {code}\r\n\r\n".encode()
        )
        return one.recv(65536)


def test_an_unusable_ca_file_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    made = config("https://127.0.0.1:9", {"SSL_CERT_FILE": str(bad)})
    with (
        running(made, []) as (_, remote),
        pytest.raises(NightshiftError, match=f"E_CONFIG|the CA file {bad} cannot be used"),
    ):
        remote.listen("model", tmp_path / "gateway")


def test_the_process_ends_with_an_empty_configuration() -> None:
    with start_gateway(ENV) as started:
        started.configure(b"")
        assert started.process.wait(60) == 0


def ends_reader(started: GatewayProcess) -> None:
    started.report.close()


def ends_control(started: GatewayProcess) -> None:
    started.control.close()


@pytest.mark.parametrize("end", [ends_reader, ends_control])
def test_the_process_ends_with_its_reader_or_client(
    end: Callable[[GatewayProcess], None], tmp_path: Path
) -> None:
    """Also where a request is on its way."""
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        running(config(endpoint.url), []) as (started, remote),
    ):
        remote.listen("model", tmp_path / "gateway")
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=2.0)
        with subprocess.Popen([sys.executable, "-c", ASKS, ticket.base_url, ticket.placeholder]):
            wait_for(lambda: endpoint.requests, "the request is on its way")
            end(started)
            assert started.process.wait(60) == 0
        if end is ends_control:
            assert sum_reported_usage(started.report.read()).assumed_usd > 0, "the bill is settled"


def test_the_process_ends_with_its_block_even_if_another_process_holds_the_socket(
    tmp_path: Path,
) -> None:
    """Such as a descendant of one that cannot kill it."""
    with running(config("http://127.0.0.1:9"), []) as (started, remote):
        remote.listen("model", tmp_path / "gateway")
        held = started.control.dup()
    with held:
        assert started.process.wait(60) == 0, "by itself, not by a signal"


ASKS = f"""
import http.client, json, sys
one = http.client.HTTPConnection(sys.argv[1].removeprefix("http://"))
body = {{"model": "{MODEL}", "max_tokens": 2000, "messages": [{{"role": "user", "content": "Hi"}}]}}
head = {{"content-type": "application/json", "x-api-key": sys.argv[2]}}
one.request("POST", "/v1/messages", json.dumps(body), head)
try:
    one.getresponse()
except (OSError, http.client.HTTPException):
    pass
"""


def test_a_killed_process_has_reported_its_pending_requests(tmp_path: Path) -> None:
    """What was on its way then is known to whoever reads the reports."""
    with (
        RawEndpoint(lambda connection, _: hang(connection)) as endpoint,
        running(config(endpoint.url), []) as (started, remote),
    ):
        remote.listen("model", tmp_path / "gateway")
        ticket = remote.open_bead("analyze", {MODEL}, budget_usd=2.0)
        with subprocess.Popen([sys.executable, "-c", ASKS, ticket.base_url, ticket.placeholder]):
            wait_for(lambda: endpoint.requests, "the request is on its way")
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
                wait_for(lambda pid=pid: _serving(pid), "it serves")
            parent.kill()
        wait_for(lambda pid=pid: gone(pid), f"its end while {moment}")


def _serving(pid: int) -> bool:
    """It waits for events: the loop's own file is open."""
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


def asked_of(user: "subprocess.Popen[bytes]") -> bytes:
    """The memory of a work whose agent has asked the model."""
    assert user.stdin and user.stdout
    base_url, placeholder = json.loads(user.stdout.readline())
    subprocess.run([sys.executable, "-c", ASKS, base_url, placeholder], check=True)
    seen = memory(user.pid)
    assert placeholder.encode() in seen, "what it has is found"
    return seen


def test_work_never_has_the_key(tmp_path: Path) -> None:
    with RawEndpoint(json_answer(200, USED)) as endpoint:
        made = config(endpoint.url)
        with start_gateway(ENV) as started:
            started.configure(encode_record(made))
            control = started.control.fileno()
            argv = [sys.executable, "-c", WORK, str(control), str(tmp_path), MODEL]
            with subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[control]
            ) as work:
                assert KEY.encode() not in asked_of(work)
                held = {os.readlink(f) for f in Path(f"/proc/{work.pid}/fd").iterdir()}  # noqa: PTH115
                report = os.readlink(f"/proc/self/fd/{started.report.fileno()}")  # noqa: PTH115
                assert report not in held, "no way to forge what is reported"
                work.communicate()
        assert len(endpoint.requests) == 1
        argv = [sys.executable, "-c", THREAD]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        ) as whole_work:
            assert whole_work.stdin
            whole_work.stdin.write(encode_record(made) + b"\n")
            whole_work.stdin.flush()
            assert KEY.encode() in asked_of(whole_work), "without the process it has"
            whole_work.communicate()


LOOKS = """
import json, os, sys
from gitlab_nightshift.gateway.gateway_config import GatewayConfig
from gitlab_nightshift.records.codec import decode_record
from gitlab_nightshift.gateway import control_socket
config, folder = decode_record(GatewayConfig, sys.stdin.buffer.read()), sys.argv[1]
LOOKED_UP = ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services")
if sys.argv[2] == "confined":
    control_socket.confine(config)
def tried(do):
    try:
        do()
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "done"
found = {name: tried(do) for name, do in {
    "authority": lambda: open(f"{folder}/ca.pem").close(),
    "names": lambda: [open(each).close() for each in LOOKED_UP if os.path.exists(each)],
    "library": lambda: __import__("encodings.cp037"),
    "secret": lambda: open(f"{folder}/secret").close(),
    "list": lambda: os.listdir(folder),
    "write": lambda: open(f"{folder}/new", "w").close(),
    "remove": lambda: os.unlink(f"{folder}/secret"),
    "environ": lambda: open("/proc/1/environ").close(),
    "home": lambda: os.listdir(os.path.expanduser("~")),
}.items()}
print(json.dumps(found))
"""
PUBLIC = {"authority", "names", "library"}


def test_the_process_can_open_only_public_files(tmp_path: Path) -> None:
    if not landlock.read_abi():
        pytest.skip("this kernel has no Landlock")
    for name in ("ca.pem", "secret"):
        (tmp_path / name).write_text("a text")
    made = config("https://127.0.0.1:9", {"SSL_CERT_FILE": str(tmp_path / "ca.pem")})

    def tried(how: str) -> dict[str, str]:
        argv = [sys.executable, "-c", LOOKS, str(tmp_path), how]
        found: dict[str, str] = json.loads(subprocess.check_output(argv, input=encode_record(made)))
        return found

    confined = tried("confined")
    assert {name: how for name, how in confined.items() if how == "done"}.keys() == PUBLIC, confined
    refused = {name: how for name, how in confined.items() if name not in PUBLIC}
    assert all(how.startswith("PermissionError") for how in refused.values()), refused
    free = tried("free")
    of_this_machine = {"environ", "home"}
    assert {name for name, how in free.items() if how != "done"} <= of_this_machine, free


def test_a_private_ca_works_in_the_confined_process(tmp_path: Path, certificate: Path) -> None:  # noqa: F811
    with ModelEndpoint([say("Hi")]) as endpoint, behind_tls(certificate, endpoint.url) as url:
        env = {"SSL_CERT_FILE": str(certificate / "cert.pem")}
        with running(config(url, env), []) as (_, remote):
            remote.listen("model", tmp_path / "gateway")
            ticket = remote.open_bead("analyze", {MODEL}, budget_usd=1.0)
            assert ask(ticket, message()) == 200


def test_the_process_loads_no_settings_and_no_pydantic() -> None:
    """It starts in half the time without them, and holds less."""
    module = "gitlab_nightshift.gateway.gateway_process"
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names = done.stdout.split()
    assert module in names
    assert not {"pydantic", "yaml", "gitlab", "gitlab_nightshift.settings"} & set(names)
