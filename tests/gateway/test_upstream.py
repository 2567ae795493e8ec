"""The address of the endpoint, its certificate, and the proxy to it."""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from tests.gateway.tools import KEY, RunningGateway, client
from tests.support.model_endpoint import ModelEndpoint
from tests.support.tls import behind_tls, make_certificate, serving
from tests.support.turns import say

ANTHROPIC = ModelKey("ANTHROPIC_API_KEY", KEY)
PROXIES = {"HTTPS_PROXY": "http://user:pass@proxy.example:3128", "NO_PROXY": ".corp, 10.0.0.9"}


@pytest.mark.parametrize(
    ("setting", "url"),
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
def test_addresses(setting: str, url: str) -> None:
    assert build_upstream(ANTHROPIC, setting, {}).base_url == url


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


@pytest.mark.parametrize("setting", CHAT_URLS)
def test_the_url_of_chat_completions(setting: str) -> None:
    upstream = build_upstream(ModelKey("OPENAI_API_KEY", KEY), setting, {})
    assert upstream.build_url("/v1/chat/completions") == CHAT_URLS[setting]


def test_a_key_in_another_header() -> None:
    assert ModelKey("OPENAI_API_KEY", KEY).header == ("Authorization", f"Bearer {KEY}")
    assert ModelKey("OPENAI_API_KEY", KEY, "api-key").header == ("api-key", KEY)


@pytest.mark.parametrize(
    "setting",
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
def test_addresses_that_cannot_be_used(setting: str) -> None:
    with pytest.raises(NightshiftError) as caught:
        build_upstream(ANTHROPIC, setting, {})
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
    upstream = build_upstream(ANTHROPIC, url, PROXIES)
    assert upstream.proxy == proxy
    assert "pass" not in repr(upstream)


@pytest.mark.parametrize(
    "text", ["X-A", "X A: b", "X-Api-Key: k", "Authorization: Bearer x", "Host: evil", "X-A: a\x00"]
)
def test_headers_that_cannot_be_added(text: str) -> None:
    with pytest.raises(NightshiftError):
        build_upstream(ANTHROPIC, "", {"ANTHROPIC_CUSTOM_HEADERS": text})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a key and a self-signed certificate for 127.0.0.1."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def test_a_private_ca(certificate: Path) -> None:
    with ModelEndpoint([say("Hi")] * 9) as endpoint, behind_tls(certificate, endpoint.url) as url:
        with client(url) as agent:
            assert agent.ask()[0] == 502
            assert agent.gateway.unusable.endswith("its certificate is not trusted")
        for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"):
            with client(url, env={name: str(certificate / "cert.pem")}) as agent:
                assert agent.ask()[0] == 200
    assert len(endpoint.messages) == 3


def test_an_invalid_ca_file(tmp_path: Path) -> None:
    invalid = tmp_path / "ca.pem"
    invalid.write_text("no certificate")
    for path in (invalid, tmp_path / "missing.pem"):
        target = build_upstream(ANTHROPIC, "https://127.0.0.1:9", {"SSL_CERT_FILE": str(path)})
        with pytest.raises(NightshiftError, match="CA file"), RunningGateway(target, print):
            pass
    assert "gateway" not in [thread.name for thread in threading.enumerate()]


def test_the_jobs_proxy_gets_a_tunnel_without_the_key(certificate: Path) -> None:
    """The proxy resolves the name, and cannot read the key."""
    heads: list[bytes] = []

    def handle(gateway: socket.socket) -> None:
        with suppress(OSError), gateway:
            heads.append(gateway.recv(65536))
            gateway.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            port = int(model.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), 5) as server:
                back = threading.Thread(target=_pump, args=(server, gateway), daemon=True)
                back.start()
                _pump(gateway, server)
                back.join(5)

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
            assert agent.ask()[0] == 200
    [head] = heads
    assert head.startswith(b"CONNECT models.test:8443 HTTP/1.1")
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in head
    assert KEY.encode() not in head
