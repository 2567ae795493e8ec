"""Which variables of a job are reported as risky, and that their values never are."""

from pathlib import Path

from gitlab_nightshift.commands.risky_variables import Risk, find_risks
from tests.support.tables import each

SHOP = Path("/builds/acme/shop")
EXPECTED = ("GITLAB_TOKEN", "ANTHROPIC_API_KEY")
TOKEN = "glpat-abcdEFGH1234567890ab"


def risks(env: dict[str, str], *agent_env: str) -> dict[str, tuple[str, ...]]:
    return {risk.kind: risk.names for risk in find_risks(env, SHOP, EXPECTED, agent_env)}


@each(
    ("name", "value", "kind"),
    [
        ("PYTHONPATH", f"/usr/lib:{SHOP}/src", "leads into the checkout"),
        ("PYTHONPATH", "src", "leads into the checkout"),
        ("PATH", f"/usr/bin:{SHOP}/node_modules/.bin", "leads into the checkout"),
        ("PATH", "/usr/bin::/bin", "leads into the checkout"),
        ("LD_PRELOAD", "/x.so", "runs code"),
        ("NODE_OPTIONS", "--require=x", "runs code"),
        ("BASH_ENV", "/x", "runs code"),
        ("GIT_SSH_COMMAND", "x", "runs code"),
        ("GIT_CONFIG_COUNT", "1", "runs code"),
        ("GIT_CONFIG_KEY_0", "core.pager", "runs code"),
        ("DOCKER_HOST", "tcp://docker:2375", "opens a machine or a cluster"),
        ("SSH_AUTH_SOCK", "/tmp/agent", "opens a machine or a cluster"),
        ("KUBECONFIG", f"{SHOP}.tmp/KUBECONFIG", "opens a machine or a cluster"),
        ("AWS_SECRET_ACCESS_KEY", "x", "cloud credentials"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/x.json", "cloud credentials"),
        ("CI_DEBUG_TRACE", "true", "prints every variable into the job log"),
        ("DEPLOY", TOKEN, "contains a token"),
        ("GITLAB_ADMIN_TOKEN", TOKEN, "contains a token"),
        ("DB_PASSWORD", "short", "a secret that GitLab cannot mask"),
        ("SIGNING_KEY", "two words and more", "a secret that GitLab cannot mask"),
    ],
)
def test_a_risky_variable_has_a_kind(name: str, value: str, kind: str) -> None:
    assert risks({name: value}) == {kind: (name,)}


@each(
    ("name", "value"),
    [
        ("PYTHONPATH", "/opt/lib"),
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/root"),
        *(("GIT_STRATEGY", "fetch"), ("GIT_DEPTH", "20"), ("GIT_CONFIG_NOSYSTEM", "1")),
        ("CI_DEBUG_TRACE", "false"),
        ("CI_JOB_TOKEN", TOKEN),
        ("GITLAB_TOKEN", TOKEN),
        ("ANTHROPIC_API_KEY", "short"),
        ("NIGHTSHIFT_MAX_TOKENS", "5"),
        *(("MAX_TOKENS", "5"), ("USE_TOKEN", "true"), ("NPM_TOKEN", "")),
        ("DB_PASSWORD", "masked-and-long"),
        ("LANG", "C.UTF-8"),
    ],
)
def test_usual_variables_are_not_risky(name: str, value: str) -> None:
    assert risks({name: value}) == {}


def test_values_are_not_reported() -> None:
    env = {"DEPLOY": TOKEN, "AWS_SESSION_TOKEN": "the-value", "NODE_OPTIONS": "the-value"}
    risky = find_risks(env, SHOP, EXPECTED, ["AWS_SESSION_TOKEN", "JAVA_HOME"])
    assert Risk("cloud credentials", ("AWS_SESSION_TOKEN",), ("AWS_SESSION_TOKEN",)) in risky
    assert "the-value" not in repr(risky)
    assert TOKEN not in repr(risky)
