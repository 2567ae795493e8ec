"""Repositories by URL and by name."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.delegation import TASK, Delegations, delegations
from tests.support.standin import FullStandin
from tests.support.world import FILES, fill


@contextmanager
def served(shop: Delegations) -> Iterator[str]:
    """A public project over HTTPS, by a certificate that the caller's environment trusts."""
    certificate, key = shop.folder / "agent/own.pem", shop.folder / "agent/own.key"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    asked = ["req", "-x509", *curve, "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *asked, *names, *files], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    gitlab = FullStandin(shop.folder / "agent/gitlab")
    gitlab._server.socket = context.wrap_socket(gitlab._server.socket, server_side=True)
    with gitlab:
        project = gitlab.add_project("acme/shop", visibility="public")
        stranger = "profile: development\nisolation: namespaces\nagent: replay\n"
        held = {**FILES, "nightshift.yaml": stranger}
        fill(project.bare_repository, shop.folder / "agent/seed", held, 3)
        shop.env["GIT_SSL_CAINFO"] = str(certificate)
        yield f"https://localhost:{gitlab._server.server_port}/acme/shop.git"


needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="it makes the certificate")


@needs_openssl
def test_a_repository_by_url(tmp_path: Path) -> None:
    """Its own nightshift.yaml is a stranger's: the settings are the caller's."""
    with delegations(tmp_path) as shop, served(shop) as url:
        repo = {"type": "git_url", "value": url}
        made = shop.prepare(repo=repo)
        made.failed("E_APPROVAL_REQUIRED", 4, "nobody has approved it")
        shop.env |= {
            "NIGHTSHIFT_POLICY__ORCHESTRATORS": "planner",
            "NIGHTSHIFT_POLICY__WRITABLE_PATHS": "docs/**",
        }
        done = shop.delegate(repo=repo)
        result = done.result
        assert (result["ok"], result["git"]["branch"]) == (True, None), done
        assert result["files_changed"] == ["docs/new.md"]
        assert b"docs/new.md" in shop.kept(done, "patch_file")
        assert shop.agent.seen[0].git_config.count("localhost") == 0
        made = shop.prepare(repo=repo, workspace={"base_ref": "nowhere"})
        made.failed("E_CONFIG", 2, "base_ref: 'nowhere' is not a branch or tag of it")
        made = shop.prepare(repo={**repo, "value": f"{url}x"})
        made.failed("E_CONFIG", 2, "it cannot be fetched")
        shop.assert_untouched()


def test_a_workspace_by_its_name(tmp_path: Path) -> None:
    with delegations(tmp_path) as shop:
        root = shop.folder / "workspaces"
        root.mkdir()
        shutil.copytree(shop.repository, root / "one")
        shop.env["NIGHTSHIFT_WORKSPACES"] = str(root)
        work = shop.prepare(repo={"type": "workspace_id", "value": "one"}).work
        assert str(work["source"].top) == str(root / "one")
        (root / "link").symlink_to(shop.repository)
        for name, text in {
            "two": "has no folder two",
            "../shop": "a workspace_id consists of",
            "link": "has no folder link",
            ".": "a workspace_id consists of",
        }.items():
            made = shop.prepare(repo={"type": "workspace_id", "value": name})
            made.failed("E_CONFIG", 2, text)
        shop.ask().failed("E_CONFIG", 2, "is not below NIGHTSHIFT_WORKSPACES")


def test_the_repository_around_the_caller_is_the_default(tmp_path: Path) -> None:
    """Nobody names one, or it is left empty; test_in_a_job.py has the whole of it."""
    with delegations(tmp_path) as shop:
        shop.context = shop.repository
        for payload in ({"task_prompt": TASK}, {"task_prompt": TASK, "repo": {}}):
            work = shop.prepared(json.dumps(payload).encode()).work
            assert str(work["source"].top) == str(shop.repository)
