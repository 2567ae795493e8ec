"""The job's facts, and the values to redact."""

from gitlab_nightshift.job.job_facts import JobFacts, read_job
from gitlab_nightshift.job.job_secrets import MODEL_KEYS, Secrets, read_secrets
from tests.support.tables import each

TOKEN = "glpat-abcdefghij0123456789"
CI = {
    "GITLAB_CI": "true",
    "CI_PIPELINE_ID": "4711",
    "CI_SERVER_URL": "https://gitlab.example.com/git",
    "CI_PROJECT_ID": "42",
    "CI_PROJECT_PATH": "acme/shop",
    "CI_PROJECT_URL": "https://gitlab.example.com/git/acme/shop",
    "CI_DEFAULT_BRANCH": "main",
    "CI_COMMIT_SHA": "a" * 40,
    "CI_COMMIT_REF_NAME": "main",
    "CI_PIPELINE_URL": "https://gitlab.example.com/git/acme/shop/-/pipelines/4711",
    "CI_PIPELINE_SOURCE": "schedule",
    "CI_PIPELINE_CREATED_AT": "2025-11-24T23:58:00Z",
    "CI_JOB_STARTED_AT": "2025-11-25T00:02:00Z",
    "CI_JOB_TIMEOUT": "3600",
    "GITLAB_USER_LOGIN": "ada",
    "GITLAB_USER_NAME": "Ada Lovelace",
    "GITLAB_USER_EMAIL": "ada@example.com",
    "CI_PROJECT_VISIBILITY": "private",
    "CI_CONFIG_PATH": "ci/main.yml",
}


def test_the_facts_of_a_job() -> None:
    assert read_job(CI) == JobFacts(
        in_ci=True,
        run_id="4711",
        server_url="https://gitlab.example.com/git",
        project_id="42",
        project_path="acme/shop",
        project_url="https://gitlab.example.com/git/acme/shop",
        default_branch="main",
        commit_sha="a" * 40,
        ref_name="main",
        pipeline_url="https://gitlab.example.com/git/acme/shop/-/pipelines/4711",
        pipeline_source="schedule",
        pipeline_created_at="2025-11-24T23:58:00Z",
        job_started_at="2025-11-25T00:02:00Z",
        job_timeout_s=3600.0,
        user_login="ada",
        user_name="Ada Lovelace",
        user_email="ada@example.com",
        visibility="private",
        ci_config_path="ci/main.yml",
    )


def test_outside_ci_each_run_gets_a_new_id() -> None:
    job = read_job({})
    assert not job.in_ci
    assert len(job.run_id) == 36
    assert job.run_id != read_job({}).run_id
    assert (job.server_url, job.project_id, job.job_timeout_s) == ("", "", None)
    assert job.ci_config_path == ".gitlab-ci.yml"


@each("url", ["https://g.example:8443/a/b/c", "https://g.example:8443/a/b/c.git/"])
def test_outside_ci_repo_url_names_the_project(url: str) -> None:
    job = read_job({}, url)
    assert job.server_url == "https://g.example:8443"
    assert (job.project_id, job.project_path) == ("a/b/c", "a/b/c")


def test_an_invalid_project_url_is_ignored() -> None:
    job = read_job({"CI_PROJECT_URL": "https://[gitlab.example/acme/shop"})
    assert (job.server_url, job.project_path) == ("", "")


@each(
    ("job", "script", "seconds"),
    [
        ("3600", "", 3600),
        ("10800", "2h45m", 9900),
        ("3600", "2h45m", 3600),
        ("", "1h20m30s", 4830),
        ("1h", "", 3600),
        ("", "", None),
        ("soon", "later", None),
        ("0", "", None),
        ("9" * 5000, "", None),
        ("9" * 5000 + "h", "1h" * 1000, None),
        ("1e999", "inf", None),
        ("-1", " 60 ", None),
        ("٣٠", "٣٠s", None),
    ],
)
def test_the_shorter_timeout_of_job_and_script_counts(
    job: str, script: str, seconds: float | None
) -> None:
    env = {"CI_JOB_TIMEOUT": job, "RUNNER_SCRIPT_TIMEOUT": script}
    assert read_job(env).job_timeout_s == seconds


def test_the_token_and_the_model_keys_are_redacted() -> None:
    keys = {name: f"key of {name}" for name in MODEL_KEYS if name != "ANTHROPIC_API_KEY"}
    secrets = read_secrets({"GITLAB_TOKEN": f"{TOKEN}\n", "ANTHROPIC_API_KEY": " ", **keys})
    assert secrets.gitlab_token == TOKEN
    assert set(secrets.values) == {TOKEN, *keys.values()}
    assert read_secrets({"GITLAB_TOKEN": " \n"}) == Secrets()


@each(
    "name",
    """CI_JOB_TOKEN CI_REGISTRY_PASSWORD CI_DEPLOY_PASSWORD HARBOR_PASSWORD DB_PASSWD my_secret
    GOOGLE_CREDENTIALS SSH_PRIVATE_KEY AWS_SECRET_ACCESS_KEY MAPS_APIKEY BOT_PAT PGPASSWORD
    DOCKER_AUTH_CONFIG NPM_AUTH GPG_PASSPHRASE SIGNING_KEY NIGHTSHIFT_NTFY_TOKEN""".split(),
)
def test_the_value_of_a_variable_with_a_secrets_name(name: str) -> None:
    assert read_secrets({name: "hunter2!"}).values == ("hunter2!",)


@each(
    "name",
    """CI_COMMIT_AUTHOR GIT_AUTHOR_NAME NIGHTSHIFT_MAX_TOKENS PATH CI_COMMIT_MESSAGE KEYBOARD
    SSH_AUTH_SOCK CI_PROJECT_PATH FF_GIT_URLS_WITHOUT_TOKENS CACHE_KEY_FILES""".split(),
)
def test_the_value_of_a_variable_with_another_name(name: str) -> None:
    assert read_secrets({name: "100000 or so"}).values == ()


def test_short_values_are_not_redacted() -> None:
    env = {"A_TOKEN": "true", "PROXY": "http://ci:ci@proxy", "B_TOKEN": "", "C_TOKEN": "sesame"}
    assert read_secrets(env).values == ("sesame",)


@each(
    "url",
    [
        "https://gitlab-ci-token:hunter2!@g.example/a.git",
        "pg://:hunter2!@db/x",
        "x=a://b:hunter2!@c",
    ],
)
def test_a_password_in_a_url_is_redacted(url: str) -> None:
    assert read_secrets({"ANYTHING": url}).values == ("hunter2!",)


def test_the_longest_value_comes_first() -> None:
    env = {"A_TOKEN": "abcdef", "B_TOKEN": "abcdefghij", "C_TOKEN": "abcdefgh"}
    assert read_secrets(env).values == ("abcdefghij", "abcdefgh", "abcdef")


def test_no_repr_shows_a_secret() -> None:
    secrets = read_secrets({"GITLAB_TOKEN": TOKEN, "OPENAI_API_KEY": "sk-the-key"})
    for text in (repr(secrets), str(secrets), f"{secrets}", repr([secrets])):
        assert text.strip("[]") == "Secrets(2 values)"
