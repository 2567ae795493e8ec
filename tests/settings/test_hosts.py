"""``policy.egress_hosts`` and ``agent_env``: what could open a connection is validated."""

import pytest

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import load_settings
from tests.support.tables import each

PLACE = "nightshift.yaml:4: policy.egress_hosts.1: "


def load_hosts(*hosts: str) -> list[str]:
    rows = "".join(f"    - {host!r}\n" for host in hosts)
    file = ConfigFile("nightshift.yaml", f"policy:\n  egress_hosts:\n{rows}")
    return load_settings({}, file).policy.egress_hosts


def test_hosts_are_normalized() -> None:
    """No default port is added: only a host with its port may be a private one."""
    hosts = ["registry.npmjs.org", "*.example.org", "mirror.corp:8081", "10.1.2.3:443"]
    assert load_hosts(" Registry.NPMjs.org ", *hosts[1:]) == hosts
    variable = {"NIGHTSHIFT_POLICY__EGRESS_HOSTS": "a.example, b.example:8443"}
    assert load_settings(variable).policy.egress_hosts == ["a.example", "b.example:8443"]


@each(
    ("host", "text"),
    [
        ("https://b.example", "expected host or host:port"),
        ("*", "expected a host's name or address"),
        ("*.org", "a wildcard needs a domain of at least two parts after it"),
        ("b.example:99999", "a port must be a number from 1 to 65535"),
        ("169.254.169.254:80", "a metadata address"),
        ("[fd00:ec2::254]:80", "a metadata address"),
        ("100.100.100.200:80", "a metadata address"),
        ("metadata.google.internal", "a metadata service is never open to agents"),
        ("127.0.0.1:8080", "an address of this machine or its link"),
        ("10.1.2.3", "a private address (needs its port, as host:port)"),
    ],
)
def test_an_invalid_host_is_reported_with_its_line(host: str, text: str) -> None:
    with pytest.raises(NightshiftError) as caught:
        load_hosts("good.example", host)
    [line] = caught.value.message.splitlines()
    assert caught.value.code is Code.CONFIG
    assert line.startswith(PLACE + text)


@each("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"])
def test_agents_get_no_proxy_of_the_job(name: str) -> None:
    with pytest.raises(NightshiftError, match="agents do not get the job's proxy"):
        load_settings({"NIGHTSHIFT_AGENT_ENV": f"JAVA_HOME,{name}"})


def test_the_number_of_hosts_is_limited() -> None:
    with pytest.raises(NightshiftError, match="at most 100 items"):
        load_hosts(*(f"h{number}.example" for number in range(101)))
