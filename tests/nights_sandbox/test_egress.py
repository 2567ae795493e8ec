"""Nights with ``policy.egress_hosts``: agents get to the named hosts, and to nothing else."""

import base64
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.internet import SAYS, company_proxy, own_private_address, page
from tests.support.sandboxes import tier_or_skip
from tests.support.world import FILES, Done, World, world

FETCH = (Path(__file__).parents[1] / "support" / "fetch.py").read_text()
METADATA = "http://169.254.169.254/latest/meta-data/"
TIERS = pytest.mark.parametrize("tier", ["namespaces", "landlock"])


@dataclass(frozen=True)
class Asked:
    """What agents and the team's command try; ``config`` allows the hosts."""

    config: str
    tunnels: Sequence[str] = ()
    urls: Sequence[str] = (METADATA,)
    direct: Sequence[tuple[str, int]] = ()

    @property
    def script(self) -> str:
        places = {"tunnels": self.tunnels, "urls": self.urls, "direct": self.direct}
        return FETCH.replace("@PLACES@", json.dumps(places))

    @property
    def files(self) -> dict[str, str | bytes]:
        return {**FILES, "fetch.py": self.script}

    @property
    def settings(self) -> str:
        return f"verify_commands: [python3 fetch.py]\nbaseline: report\n{self.config}"


def opening(*hosts: str) -> str:
    return f"policy: {{egress_hosts: {json.dumps(hosts)}}}\n"


def reached(
    shop: World, asked: Asked, tier: str, **env: str
) -> tuple[dict[str, str], dict[str, str]]:
    """What a hostile agent and the team's command could connect to."""
    agent = shop.folder / "hostile"
    agent.mkdir()
    (agent / "claude").write_text(f"#!{Path(sys.executable).resolve()}\n{asked.script}")
    (agent / "claude").chmod(0o755)
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    done = shop.nightshift(
        "run",
        "--category",
        "docs",
        NIGHTSHIFT_ISOLATION=tier_or_skip(tier),
        NIGHTSHIFT_AGENT_PATHS=str(Path(sys.base_prefix).resolve()),
        PATH=f"{agent}:{Path(python).parent if python else ''}:{shop.env['PATH']}",
        **env,
    )
    assert (done.exit_status, done.stderr) == (5, ""), done.log
    shop.assert_restored()
    return told(shop, "logs/01-analyze-docs-1.out"), told(shop, "logs/baseline-1.out")


def told(shop: World, name: str) -> dict[str, str]:
    found = json.loads(shop.products()[name].splitlines()[0])
    assert "sesame-of-the-company" not in found["environment"]
    return dict(found["found"])


def notes(shop: World) -> list[str]:
    texts = [note["text"] for note in shop.list_events("note")]
    return [text for text in texts if text.startswith("egress")]


@TIERS
def test_what_is_named_is_reached_and_nothing_else(tmp_path: Path, tier: str) -> None:
    """A private mirror at once, since it is in NO_PROXY; the others through the company's proxy."""
    address = own_private_address()
    if not address:
        pytest.skip("this machine has no private address")
    host = f"[{address}]" if ":" in address else address
    with (
        page(address) as port,
        page(address) as other,
        page("127.0.0.1") as public,
        company_proxy(public) as proxy,
    ):
        mirror, service = f"{host}:{port}", f"{host}:{other}"
        asked = Asked(
            opening(
                mirror, "registry.example", "plain.example:80", "closed.example", "localhost:9"
            ),
            tunnels=[
                *(mirror, service, "registry.example:443", "other.example:443"),
                *("closed.example:443", "metadata.google.internal:80", "localhost:9"),
                *(f"127.0.0.1:{proxy.port}", "169.254.169.254:80"),
            ],
            urls=[
                *(f"http://{mirror}/", f"http://{service}/"),
                *("http://plain.example/", "http://other.example/", METADATA),
            ],
            direct=[
                *((address, port), (address, other)),
                *(("127.0.0.1", proxy.port), ("127.0.0.1", public)),
            ],
        )
        with world(tmp_path, config=asked.settings, files=asked.files) as shop:
            env = {**company(proxy.port), "NO_PROXY": f"127.0.0.1,{address}"}
            for found in reached(shop, asked, tier, **env):
                assert {name for name, text in found.items() if text == SAYS} == {
                    *(f"CONNECT {mirror}", f"GET http://{mirror}/"),
                    *("CONNECT registry.example:443", "GET http://plain.example/"),
                }
                closed = [text for text in found.values() if text != SAYS]
                assert len(closed) == 14
                assert all(text.startswith("closed:") for text in closed), closed
                assert "403" in found[f"GET {METADATA}"]
                assert "502" in found["CONNECT closed.example:443"]
            _told_once(
                shop,
                tier,
                mirror,
                closed=[
                    *(service, "other.example:443", "metadata.google.internal:80", "localhost:9"),
                    *(f"127.0.0.1:{proxy.port}", "169.254.169.254:80", "other.example:80"),
                ],
            )
        assert set(proxy.asked) == {
            *("registry.example:443", "plain.example:80", "closed.example:443"),
        }
        code = base64.b64encode(b"ci:sesame-of-the-company").decode()
        assert proxy.credentials == {f"Basic {code}"}


def _told_once(shop: World, tier: str, mirror: str, closed: Sequence[str]) -> None:
    """The log names each refused host once, however often it is tried, and who connected where."""
    rows = notes(shop)
    assert "sesame-of-the-company" not in json.dumps([shop.result, rows])
    kept = "files held, secrets held, network held, lifetime held"
    held, _, opened = shop.result["isolation"].partition("; open to ")
    assert held == f"{tier} ({kept}"
    assert set(opened.rstrip(")").split(", ")) == {
        *(mirror, "registry.example:443", "plain.example:80", "closed.example:443", "localhost:9"),
    }
    *refused, agent, command = rows
    assert [row.split("'")[:2] for row in refused] == [
        ["egress, verify_commands: ", name] for name in closed
    ]
    assert [row.split(" ")[1] for row in (agent, command)] == [
        *("01-analyze-docs-1:", "verify_commands:")
    ]
    for row in (agent, command):
        reached = set(re.findall(r"(\S+) \(sent", row))
        assert reached == {mirror, "plain.example:80", "registry.example:443"}


def test_nothing_is_reached_where_nothing_is_named(tmp_path: Path) -> None:
    """That every tier closes the network, a hostile agent shows in ``test_boundary.py``."""
    tier = "namespaces" if shutil.which("bwrap") else "landlock"
    with page("127.0.0.1") as port, company_proxy(port) as proxy:
        asked = Asked("", urls=[METADATA, "http://registry.example/"], direct=[("127.0.0.1", port)])
        env = company(proxy.port)
        with world(tmp_path, config=asked.settings, files=asked.files) as shop:
            for found in reached(shop, asked, tier, **env):
                assert len(found) == 3
                assert all(text.startswith("closed:") for text in found.values()), found
            assert "open to" not in shop.result["isolation"]
            assert notes(shop) == []
        assert proxy.asked == []


def company(port: int) -> dict[str, str]:
    """The variables of a job that gets out by its company's proxy only."""
    url = f"http://ci:sesame-of-the-company@127.0.0.1:{port}"
    return {"HTTPS_PROXY": url, "http_proxy": url, "NO_PROXY": "127.0.0.1,10.0.0.0/8"}


def refused(tmp_path: Path, config: str, **env: str) -> Done:
    with world(tmp_path, config=config) as shop:
        done = shop.nightshift("run", "--category", "docs", **env)
        assert done.exit_status == 2
        assert shop.agent.seen == []
        return done


def test_what_is_never_open_is_no_setting(tmp_path: Path) -> None:
    hosts = ("169.254.169.254:80", "metadata.google.internal", "a b")
    rows = "".join(f"    - {host}\n" for host in hosts)
    done = refused(tmp_path, f"policy:\n  egress_hosts:\n{rows}")
    for number in range(len(hosts)):
        place = f"nightshift.yaml:{number + 3}: policy.egress_hosts.{number}: "
        assert place in done.stderr


def test_a_proxy_that_cannot_be_used_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    env = {"HTTPS_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    done = refused(tmp_path, opening("registry.example"), **env)
    assert "HTTPS_PROXY: expected a proxy such as http://proxy.example:3128" in done.last_line
