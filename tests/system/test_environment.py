"""A child's environment comes from an allowlist, whatever the job's environment contains."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.system.environment import (
    BASE_VARIABLES,
    DEFAULT_PATH,
    LOCALE,
    build_allowed_env,
    build_bead_env,
    build_search_path,
)
from gitlab_nightshift.system.network_settings import CERTIFICATES, PROXIES

HOME, TMP, CHECKOUT = Path("/scratch/home"), Path("/scratch/tmp"), Path("/builds/acme/shop")
OURS = {"LANG", "TERM", "USER", "PATH", "HOME", "TMPDIR", "SHELL", "JAVA_TOOL_OPTIONS"}
JAVA = "-Duser.home=/scratch/home -Djava.io.tmpdir=/scratch/tmp"
TOKEN = "glpat-abcdefghij0123456789"
JOB = {
    "PATH": "/usr/bin",
    "HOME": "/root",
    "TMPDIR": "/builds/tmp",
    "USER": "root",
    "LANG": "de_DE.UTF-8",
    "TZ": "Europe/Berlin",
    "HTTPS_PROXY": "http://proxy:3128",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "JAVA_HOME": "/opt/java",
    "GITLAB_TOKEN": TOKEN,
    "CI_JOB_TOKEN": "64_job",
    "CI_REGISTRY_PASSWORD": "64_job",
    "CI_REPOSITORY_URL": "https://gitlab-ci-token:64_job@gitlab.example.com/acme/shop.git",
    "ANTHROPIC_API_KEY": "sk-ant-x",
    "OPENAI_API_KEY": "sk-x",
    "DB_PASSWORD": "hunter2",
    "NIGHTSHIFT_REVIEWER": "ada",
    "SHELL": "/evil/shell",
}
CODE = """LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV NODE_OPTIONS PYTHONPATH PYTHONSTARTUP
    PYTHONWARNINGS BROWSER PERL5OPT RUBYOPT GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT
    GIT_EXEC_PATH GIT_DIR GIT_ASKPASS SSH_AUTH_SOCK DOCKER_HOST KUBECONFIG EDITOR PAGER""".split()


def bead_env(env: dict[str, str], *names: str) -> dict[str, str]:
    return build_bead_env(env, names, home=HOME, tmp=TMP, checkout=CHECKOUT)


def test_a_bead_gets_exactly_these_variables() -> None:
    assert bead_env(JOB, "JAVA_HOME", "ANTHROPIC_API_KEY") == {
        "PATH": "/usr/bin",
        "HOME": "/scratch/home",
        "TMPDIR": "/scratch/tmp",
        "JAVA_TOOL_OPTIONS": JAVA,
        "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
        "USER": "root",
        "LANG": "de_DE.UTF-8",
        "TERM": "dumb",
        "TZ": "Europe/Berlin",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "JAVA_HOME": "/opt/java",
        "ANTHROPIC_API_KEY": "sk-ant-x",
    }


def test_an_empty_job_gives_a_complete_environment() -> None:
    env = bead_env({})
    assert env.keys() == OURS
    assert (env["PATH"], env["LANG"], env["USER"]) == (DEFAULT_PATH, "C.UTF-8", "nightshift")


def test_java_gets_the_home_and_the_jobs_options_last() -> None:
    env = {"JAVA_TOOL_OPTIONS": "-Xmx1g"}
    assert bead_env(env)["JAVA_TOOL_OPTIONS"] == JAVA, "not named in agent_env"
    assert bead_env(env, "JAVA_TOOL_OPTIONS")["JAVA_TOOL_OPTIONS"] == f"{JAVA} -Xmx1g"
    odd = build_bead_env({}, (), home=Path("/a b"), tmp=TMP, checkout=CHECKOUT)
    assert odd["JAVA_TOOL_OPTIONS"].startswith("'-Duser.home=/a b' -D")


@pytest.mark.parametrize("name", CODE)
def test_variables_that_run_code_are_not_passed(name: str) -> None:
    assert name not in BASE_VARIABLES
    assert name not in bead_env({name: "x"})


def test_the_base_variables_contain_no_secret() -> None:
    assert not set(MODEL_KEYS) & set(BASE_VARIABLES)
    assert set(BASE_VARIABLES) == {"PATH", "USER", *LOCALE, *CERTIFICATES}


@pytest.mark.parametrize("name", PROXIES)
def test_the_jobs_proxies_are_not_passed_on(name: str) -> None:
    """They may contain a password, and lead past the gateway."""
    assert name not in BASE_VARIABLES
    assert name not in bead_env({name: "http://user:secret@proxy:3128"})


NAMES = st.sampled_from(sorted({*JOB, *CODE, *BASE_VARIABLES, "gitlab_token", "X"})) | st.text(
    st.characters(codec="utf-8", exclude_characters="=\0"), min_size=1, max_size=12
)
VALUES = st.text(max_size=20) | st.sampled_from(
    [TOKEN, f"/usr/bin:{TOKEN}", f"{CHECKOUT}/bin:/bin", "GITLAB_TOKEN=x", "PATH:$GITLAB_TOKEN"]
)


@given(st.dictionaries(NAMES, VALUES), st.lists(NAMES, max_size=5))
def test_no_other_variable_is_ever_passed(env: dict[str, str], names: list[str]) -> None:
    env = {**env, "GITLAB_TOKEN": TOKEN, "CI_JOB_TOKEN": TOKEN}
    child = bead_env(env, *names, "GITLAB_TOKEN", "CI_JOB_TOKEN")
    assert child.keys() <= {*BASE_VARIABLES, *OURS, *names}
    assert not {"GITLAB_TOKEN", "CI_JOB_TOKEN"} & child.keys()
    fixed = {"HOME": str(HOME), "TMPDIR": str(TMP)}
    assert {name: child[name] for name in fixed} == fixed
    passed = {name for name in child.keys() - {"HOME", "TMPDIR", "SHELL", "PATH"} if name in env}
    assert all(child[name] == env[name] or not env[name] for name in passed)
    assert build_allowed_env(env, names).keys() <= {*BASE_VARIABLES, *names}
    assert "GITLAB_TOKEN" not in build_allowed_env(env, names)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        ("", DEFAULT_PATH),
        (":", DEFAULT_PATH),
        (".:bin:~/bin:/bin::", "/bin"),
        (f"{CHECKOUT}:{CHECKOUT}/node_modules/.bin:/bin", "/bin"),
        (f"{CHECKOUT}/../shop/bin:/bin", "/bin"),
        (f"/bin:{CHECKOUT}-tools/bin", f"/bin:{CHECKOUT}-tools/bin"),
        (f"{CHECKOUT.parent}", f"{CHECKOUT.parent}"),
    ],
)
def test_path_contains_no_folder_of_the_checkout(path: str, allowed: str) -> None:
    assert build_search_path({"PATH": path}, CHECKOUT) == allowed
    assert bead_env({"PATH": path})["PATH"] == allowed


def test_links_into_the_checkout_are_removed_too(tmp_path: Path) -> None:
    checkout, alias = tmp_path / "shop", tmp_path / "alias"
    (checkout / "bin").mkdir(parents=True)
    alias.symlink_to(checkout)
    (tmp_path / "tools").symlink_to(checkout / "bin")
    (checkout / "out").symlink_to("/usr/bin")
    folders = [checkout / "bin", alias / "bin", tmp_path / "tools", checkout / "out"]
    path = os.pathsep.join([*map(str, folders), "/bin"])
    assert build_search_path({"PATH": path}, checkout) == "/bin"
    assert build_search_path({"PATH": path}, alias) == "/bin"
