"""A company's certificates in the checkout: a night trusts them as they were before its agents."""

import shutil
from pathlib import Path

from tests.support.agent import plays, sh
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import GOOD, bill, priced
from tests.support.tls import behind_tls, make_certificate
from tests.support.world import World, world

USD = 0.25
UNCOPIED = """
from gitlab_nightshift.run.supervisor import supervised_run
supervised_run.copy_certificates = lambda *_: {}
"""


def put(shop: World, gitlab: str) -> dict[str, str]:
    """The job's variables: the one place names a file that git ignores."""
    (shop.checkout / "build").mkdir()
    shutil.copy(shop.folder / "tls/cert.pem", shop.checkout / "build/ca.pem")
    shop.look()
    return {"CI_SERVER_URL": gitlab, "SSL_CERT_FILE": "build/ca.pem"}


def test_an_agent_cannot_exchange_what_publish_trusts(tmp_path: Path) -> None:
    """GitLab's API, the push and the model by one variable; the agent has the job's own file."""
    (tmp_path / "tls").mkdir()
    certificate = make_certificate(tmp_path / "tls")
    implement = [sh("echo exchanged > build/ca.pem"), *GOOD["implement"]]
    script = plays(GOOD, {"analyze": priced(GOOD["analyze"], USD), "implement": implement})
    with (
        world(tmp_path, script) as shop,
        behind_tls(certificate, shop.gitlab.url) as gitlab,
        ModelEndpoint(bill) as endpoint,
        behind_tls(certificate, endpoint.url) as model,
    ):
        env = {**put(shop, gitlab), "ANTHROPIC_BASE_URL": model}
        shop.patch = UNCOPIED
        done = shop.nightshift("run", **env)
        assert done.exit_status != 0, "the control"
        assert "its certificate is not trusted" in done.log
        shop.patch = ""
        done = shop.nightshift("run", **env)
        assert (done.exit_status, len(shop.merge_requests)) == (0, 1), done
        assert shop.result["total_cost_usd"] == USD
        assert "not used" not in done.stderr
        given = shop.agent.last("implement").env
        assert given["SSL_CERT_FILE"] == "build/ca.pem"
        assert "REQUESTS_CA_BUNDLE" not in given
        shop.assert_restored()
