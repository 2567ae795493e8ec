"""Nights with ``policy.egress_hosts``: what is named is reached, and nothing else."""

import base64
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.night.test_boundary import tier_or_skip
from tests.support.internet import SAYS, company_proxy, own_private_address, page
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, turns
from tests.support.world import FILES, PROVING, TOOLS, Done, World, world

FETCH = (Path(__file__).parents[1] / "support" / "fetch.py").read_text()
METADATA = "http://169.254.169.254/latest/meta-data/"
CATEGORIES = ("docs", "tests", "refactoring", "security", "performance")
TIERS = pytest.mark.parametrize("tier", ["namespaces", "landlock"])


@dataclass(frozen=True)
class Asked:
    """What agents and the team's command try; ``config`` opens what it opens."""

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
    """What a hostile agent and the team's command reached."""
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
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    shop.assert_put_back()
    return told(shop, "logs/01-analyze-docs-1.out"), told(shop, "logs/baseline-1.out")


def told(shop: World, name: str) -> dict[str, str]:
    found = json.loads(shop.products()[name].splitlines()[0])
    assert "sesame-of-the-company" not in found["environment"]
    return dict(found["found"])


def notes(shop: World) -> list[str]:
    rows = map(json.loads, shop.products()["events.jsonl"].decode().splitlines())
    return [row["text"] for row in rows if row.get("text", "").startswith("egress")]


@TIERS
def test_a_private_mirror_is_reached_where_it_is_named(tmp_path: Path, tier: str) -> None:
    address = own_private_address()
    if not address:
        pytest.skip("this machine has no private address")
    host = f"[{address}]" if ":" in address else address
    with page(address) as port, page(address) as other:
        mirror, service = f"{host}:{port}", f"{host}:{other}"
        asked = Asked(
            opening(mirror),
            tunnels=[mirror, service, "registry.example:443", "169.254.169.254:80"],
            urls=[f"http://{mirror}/", f"http://{service}/", METADATA],
            direct=[(address, port), (address, other)],
        )
        with world(tmp_path, config=asked.settings, files=asked.files) as shop:
            agent, command = reached(shop, asked, tier)
            for found in (agent, command):
                ways = {name for name, text in found.items() if text == SAYS}
                assert ways == {f"CONNECT {mirror}", f"GET http://{mirror}/"}
                closed = [text for text in found.values() if text != SAYS]
                assert len(closed) == 7
                assert all(text.startswith("closed:") for text in closed), closed
                assert "403" in found[f"GET {METADATA}"]
            kept = ", ".join(f"{name} held" for name in ("files", "secrets", "network", "lifetime"))
            assert shop.result["isolation"] == f"{tier} ({kept}; open to {mirror})"
            told = [note.split(" ")[1:3] for note in notes(shop)]
            refused = [f"'{service}'", "'registry.example:443'", "'169.254.169.254:80'"]
            assert [what for _, what in told[:3]] == refused, "each once, whoever asks again"
            assert {who for who, _ in told[:3]} == {"verify_commands:"}
            opened = [f"{n:02}-analyze-{name}-1:" for n, name in enumerate(CATEGORIES, 1)]
            assert told[3:] == [[who, mirror] for who in (*opened, "verify_commands:")]


@TIERS
def test_nothing_is_reached_where_nothing_is_named(tmp_path: Path, tier: str) -> None:
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


@TIERS
def test_through_the_proxy_of_the_company(tmp_path: Path, tier: str) -> None:
    with page("127.0.0.1") as port, company_proxy(port) as proxy:
        asked = Asked(
            opening("registry.example", "plain.example:80", "closed.example", "localhost:9"),
            tunnels=[
                *("registry.example:443", "other.example:443", "closed.example:443"),
                *("metadata.google.internal:80", "localhost:9", f"127.0.0.1:{proxy.port}"),
            ],
            urls=["http://plain.example/", "http://other.example/", METADATA],
            direct=[("127.0.0.1", proxy.port), ("127.0.0.1", port)],
        )
        with world(tmp_path, config=asked.settings, files=asked.files) as shop:
            for found in reached(shop, asked, tier, **company(proxy.port)):
                opened = {name for name, text in found.items() if text == SAYS}
                assert opened == {"CONNECT registry.example:443", "GET http://plain.example/"}
                assert "502" in found["CONNECT closed.example:443"]
            log = json.dumps([shop.result, notes(shop)])
            assert "sesame-of-the-company" not in log
        assert set(proxy.asked) == {
            *("registry.example:443", "plain.example:80", "closed.example:443"),
        }
        code = base64.b64encode(b"ci:sesame-of-the-company").decode()
        assert proxy.credentials == {f"Basic {code}"}


def test_the_real_agent_reaches_its_gateway_beside_the_proxy(tmp_path: Path) -> None:
    config = PROVING + opening("registry.example")
    with (
        world(tmp_path, config=config) as shop,
        ModelEndpoint(turns(shop.checkout), bead_of=BEADS) as endpoint,
    ):
        done = shop.nightshift(
            "run",
            ANTHROPIC_BASE_URL=endpoint.url,
            NIGHTSHIFT_ISOLATION=tier_or_skip("landlock"),
            PATH=f"{TOOLS}:{shop.env['PATH']}",
        )
        assert (done.exit_status, done.stderr) == (0, "")
        assert shop.result["outcome"] == "MR_CREATED"
        assert endpoint.unscripted == []
        assert notes(shop) == []


def refused(tmp_path: Path, config: str, **env: str) -> Done:
    with world(tmp_path, config=config) as shop:
        done = shop.nightshift("run", "--category", "docs", **env)
        assert done.exit_status == 2
        assert shop.agent.seen == []
        return done


@pytest.mark.parametrize("host", ["169.254.169.254:80", "metadata.google.internal", "a b"])
def test_what_is_never_open_is_no_setting(tmp_path: Path, host: str) -> None:
    done = refused(tmp_path, f"policy:\n  egress_hosts:\n    - {host}\n")
    assert "nightshift.yaml:3: policy.egress_hosts.0: " in done.stderr


def test_a_proxy_that_cannot_be_used_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    env = {"HTTPS_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    done = refused(tmp_path, opening("registry.example"), **env)
    assert "HTTPS_PROXY: a proxy such as http://proxy.example:3128 is expected" in done.last_line
