"""The address of the endpoint, its certificate, and the proxy on the way to it."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from tests.gateway.tools import KEY, Client, RunningGateway, client
from tests.support.model_endpoint import ModelEndpoint
from tests.support.tls import behind_tls, make_certificate, serving
from tests.support.turns import say

ANTHROPIC = ModelKey("ANTHROPIC_API_KEY", KEY)
PROXIES = {"HTTPS_PROXY": "http://user:pass@proxy.example:3128", "NO_PROXY": ".corp, 10.0.0.9"}


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", "https://api.anthropic.com"),
        ("https://models.example/anthropic/", "https://models.example/anthropic"),
        ("https://models.example/v1", "https://models.example"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://litellm:4000", "http://litellm:4000"),
        ("http://10.1.2.3", "http://10.1.2.3"),
    ],
)
def test_addresses(given: str, url: str) -> None:
    assert build_upstream(ANTHROPIC, given, {}).base_url == url


CHAT_URLS = {
    "https://api.openai.com/v1": "https://api.openai.com/v1/chat/completions",
    "http://llama:8080": "http://llama:8080/v1/chat/completions",
    "https://gw.example/llm": "https://gw.example/llm/v1/chat/completions",
    "https://x.openai.azure.com/openai/v1/": "https://x.openai.azure.com/openai/v1/chat/completions",
    "https://x.openai.azure.com/openai/v1?api-version=preview": (
        "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview"
    ),
    "https://x.azure.com/openai/deployments/gpt?api-version=2024-10-21": (
        "https://x.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21"
    ),
    "https://generativelanguage.googleapis.com/v1beta/openai/": (
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
    ),
    "https://open.example/api/paas/v4": "https://open.example/api/paas/v4/chat/completions",
}


@pytest.mark.parametrize("given", CHAT_URLS)
def test_the_url_of_chat_completions(given: str) -> None:
    upstream = build_upstream(ModelKey("OPENAI_API_KEY", KEY), given, {})
    assert upstream.build_url("/v1/chat/completions") == CHAT_URLS[given]


def test_a_key_in_another_header() -> None:
    assert ModelKey("OPENAI_API_KEY", KEY).header == ("Authorization", f"Bearer {KEY}")
    assert ModelKey("OPENAI_API_KEY", KEY, "api-key").header == ("api-key", KEY)


@pytest.mark.parametrize(
    "given",
    [
        "http://models.example",
        "http://93.184.216.34",
        "http://169.254.169.254",
        "https://user:pass@models.example",
        "https://models.example?x=1",
        "https://models.example#x",
        "https://models.example:99999",
        "https://models.example\n",
        "ftp://models.example",
        "models.example",
        "https://",
    ],
)
def test_addresses_that_cannot_be_used(given: str) -> None:
    with pytest.raises(NightshiftError) as caught:
        build_upstream(ANTHROPIC, given, {})
    assert "pass" not in str(caught.value).replace("password", "")
    assert str(caught.value).startswith("model_endpoint: ")


def test_an_error_names_the_variable_of_an_address() -> None:
    env = {"ANTHROPIC_BASE_URL": "models.example"}
    with pytest.raises(NightshiftError, match="ANTHROPIC_BASE_URL: expected an address such as"):
        build_upstream(ANTHROPIC, env["ANTHROPIC_BASE_URL"], env)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://models.example", PROXIES["HTTPS_PROXY"]),
        ("https://models.corp", ""),
        ("https://corp", ""),
        ("https://notcorp.example", PROXIES["HTTPS_PROXY"]),
        ("http://127.0.0.1:1", ""),
        ("http://10.0.0.9", ""),
        ("http://litellm", ""),
    ],
)
def test_the_jobs_proxy_is_used_for_public_hosts(url: str, proxy: str) -> None:
    found = build_upstream(ANTHROPIC, url, PROXIES)
    assert found.proxy == proxy
    assert "pass" not in repr(found)


@pytest.mark.parametrize(
    "text", ["X-A", "X A: b", "X-Api-Key: k", "Authorization: Bearer x", "Host: evil", "X-A: a\x00"]
)
def test_headers_that_cannot_be_added(text: str) -> None:
    with pytest.raises(NightshiftError):
        build_upstream(ANTHROPIC, "", {"ANTHROPIC_CUSTOM_HEADERS": text})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 of nobody's authority, in one file."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def asked(agent: Client) -> int:
    return agent.ask()[0]


def test_a_private_ca(certificate: Path) -> None:
    with ModelEndpoint([say("Hi")] * 9) as endpoint, behind_tls(certificate, endpoint.url) as url:
        with client(url) as agent:
            assert asked(agent) == 502
            assert agent.gateway.unusable.endswith("its certificate is not trusted")
        for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"):
            with client(url, env={name: str(certificate / "cert.pem")}) as agent:
                assert asked(agent) == 200
    assert len(endpoint.messages) == 3


def test_an_invalid_ca_file(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    for path in (bad, tmp_path / "missing.pem"):
        target = build_upstream(ANTHROPIC, "https://127.0.0.1:9", {"SSL_CERT_FILE": str(path)})
        with pytest.raises(NightshiftError, match="CA file"), RunningGateway(target, print):
            pass
    assert not [t for t in threading.enumerate() if t.name == "gateway"]


def test_the_jobs_proxy_gets_a_tunnel_without_the_key(certificate: Path) -> None:
    """The name is the proxy's to resolve; the key goes through a tunnel it cannot read."""
    seen: list[bytes] = []

    def handle(agent: socket.socket) -> None:
        with suppress(OSError), agent:
            seen.append(agent.recv(65536))
            agent.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            port = int(model.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), 5) as behind:
                way = threading.Thread(target=_pump, args=(behind, agent), daemon=True)
                way.start()
                _pump(agent, behind)
                way.join(5)

    with (
        ModelEndpoint([say("Hi")]) as endpoint,
        behind_tls(certificate, endpoint.url) as model,
        serving(handle) as proxy,
    ):
        env: Mapping[str, str] = {
            "HTTPS_PROXY": f"http://user:pass@127.0.0.1:{proxy}",
            "SSL_CERT_FILE": str(certificate / "cert.pem"),
        }
        with client("https://models.test:8443", env=env) as agent:
            assert asked(agent) == 200
    [head] = seen
    assert head.startswith(b"CONNECT models.test:8443 HTTP/1.1")
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in head
    assert KEY.encode() not in head
