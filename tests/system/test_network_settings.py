"""The certificates and the proxy of the program's own connections."""

import os
from pathlib import Path

import pytest

from gitlab_nightshift.sealed_start import CA_FILES, LARGEST_CA_FILE, prepare_start
from gitlab_nightshift.system import network_settings
from gitlab_nightshift.system.network_settings import (
    CERTIFICATES,
    build_network_env,
    copy_certificates,
    find_job_proxy,
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "outside.pem").write_text("outside")
    (tmp_path / "shop/link.pem").symlink_to("../outside.pem")
    (tmp_path / "shop/ca.pem").write_text("inside")
    (tmp_path / "shop/large.pem").write_text("x" * (LARGEST_CA_FILE + 1))
    return tmp_path / "shop"


def test_certificates_in_the_checkout_are_copied(shop: Path) -> None:
    private = shop.parent / "private"
    env = {
        "SSL_CERT_FILE": "ca.pem",
        "REQUESTS_CA_BUNDLE": str(shop / "link.pem"),
        "CURL_CA_BUNDLE": str(shop / "large.pem"),
        "GIT_SSL_CAINFO": str(shop.parent / "outside.pem"),
        "NODE_EXTRA_CA_CERTS": str(shop / "gone.pem"),
        "SSL_CERT_DIR": str(shop),
        "HTTPS_PROXY": "http://proxy:1",
        "OTHER": "a",
    }
    variables = copy_certificates(env, shop, private)
    (shop / "ca.pem").write_text("exchanged")
    contents = {name: Path(path).read_text() for name, path in variables.items()}
    assert contents == {"SSL_CERT_FILE": "inside", "REQUESTS_CA_BUNDLE": "outside"}
    assert all(Path(path).is_relative_to(private) for path in variables.values())
    unchanged = {name: env[name] for name in ("GIT_SSL_CAINFO", "HTTPS_PROXY")}
    assert build_network_env(env, shop, private) == {**unchanged, **variables}


def test_unset_variables_name_the_shared_bundle(shop: Path) -> None:
    private, outside = shop.parent / "private", str(shop.parent / "outside.pem")
    env = {"CI_SERVER_TLS_CA_FILE": outside, "SSL_CERT_FILE": "ca.pem", "CURL_CA_BUNDLE": outside}
    variables = copy_certificates(env, shop, private)
    (shop / "ca.pem").write_text("exchanged")
    assert Path(variables["GIT_SSL_CAINFO"]).read_text().endswith("\noutside\ninside")
    assert Path(variables["SSL_CERT_FILE"]).read_text() == "inside"
    assert "REQUESTS_CA_BUNDLE" not in variables, "CURL_CA_BUNDLE means the same"
    network = build_network_env(env, shop, private)
    assert network == {**variables, "CURL_CA_BUNDLE": outside}

    other = shop.parent / "other"
    other.mkdir()
    runners = copy_certificates({"CI_SERVER_TLS_CA_FILE": outside}, shop, other)
    assert len({*runners.values()}) == 1 and len(runners) == 3


def test_by_default_the_systems_certificates_are_trusted(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, private = str(shop.parent / "outside.pem"), shop.parent / "private"
    monkeypatch.setattr(network_settings, "_SYSTEM_BUNDLES", ("/gone", own))
    assert copy_certificates({}, shop, private) == {"REQUESTS_CA_BUNDLE": own}
    assert copy_certificates({"REQUESTS_CA_BUNDLE": "/a.pem"}, shop, private) == {}
    assert build_network_env({}, shop, private) == {}


def test_certificates_that_are_not_copied_are_reported(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    env = {"SSL_CERT_FILE": "ca.pem", "GIT_SSL_CAINFO": "gone.pem", "SSL_CERT_DIR": "."}
    start = prepare_start([], {**env, "CURL_CA_BUNDLE": "large.pem"})
    os.close(start.descriptor)
    assert set(start.left_out) == {
        "SSL_CERT_DIR leads into the checkout, where agents write, so it is not used",
        "GIT_SSL_CAINFO: gone.pem is no file of up to 2 MB, as for a copy: not used",
        "CURL_CA_BUNDLE: large.pem is no file of up to 2 MB, as for a copy: not used",
    }


def test_the_sealed_start_handles_every_certificate_variable() -> None:
    assert set(CERTIFICATES) == {*CA_FILES, "SSL_CERT_DIR"}


ENV = {
    "HTTPS_PROXY": "http://one:3128",
    "http_proxy": "two:8080",
    "NO_PROXY": " 10.0.0.0/8 ,fd00::/8, .corp,gitlab.example.com:443,192.168.1.7",
}


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example.org/x", "http://one:3128"),
        ("http://api.example.org", "http://two:8080"),
        ("https://10.1.2.3:8081", ""),
        ("https://11.1.2.3:8081", "http://one:3128"),
        ("https://[fd00::2]:443", ""),
        ("https://[2606:4700::1]:443", "http://one:3128"),
        ("https://mirror.corp", ""),
        ("https://corp", ""),
        ("https://acorp", "http://one:3128"),
        ("https://gitlab.example.com", ""),
        ("https://192.168.1.7", ""),
        ("https://192.168.1.70", "http://one:3128"),
        ("https://127.0.0.1:1", ""),
        ("http://localhost", ""),
    ],
)
def test_the_jobs_proxy_variables(url: str, proxy: str) -> None:
    assert find_job_proxy(url, ENV) == proxy


def test_lower_case_takes_precedence_and_a_star_matches_all() -> None:
    both = {"HTTPS_PROXY": "http://upper", "https_proxy": "http://lower"}
    assert find_job_proxy("https://a.example", both) == "http://lower"
    assert find_job_proxy("https://a.example", {**both, "no_proxy": "*"}) == ""
    assert find_job_proxy("https://a.example", {}) == ""
