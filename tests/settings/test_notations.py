"""The notations of values: valid ones, invalid ones, and no other exception than ValueError."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gitlab_nightshift.settings import notations
from gitlab_nightshift.settings.load import build_settings, load_settings
from gitlab_nightshift.settings.model import Bytes, Seconds
from tests.support.tables import each

CHECKS: list[Callable[[Any], Any]] = [
    notations.parse_duration,
    notations.parse_size,
    notations.parse_weekday,
    notations.parse_date,
    notations.check_new_category,
    notations.check_variable_name,
    notations.check_relative_glob,
    notations.check_branch_prefix,
    notations.check_web_address,
    notations.check_command,
    notations.check_allowed_command,
    notations.check_passed_variable,
    notations.check_notification_url,
    notations.check_time_zone,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@given(text=st.text(max_size=400))
def test_any_text_is_a_value_or_a_mistake(check: Callable[[Any], Any], text: str) -> None:
    try:
        check(text)
    except ValueError as error:
        assert str(error)


@each(
    ("value", "seconds"),
    [
        (90, 90),
        ("90", 90),
        ("90s", 90),
        (" 10m ", 600),
        ("2h", 7200),
        ("1.5h", 5400),
        ("1d", 86400),
    ],
)
def test_durations(value: Any, seconds: float) -> None:
    assert TypeAdapter(Seconds).validate_python(value) == seconds


@each(
    "value",
    ["", "x", "10 minutes", "-1", "10mm", "1h30m", "0", 0, -5, "8d", "9" * 400, "٣", [], None],
)
def test_invalid_durations(value: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Seconds).validate_python(value)


@each(
    ("value", "size"),
    [(1000, 1000), ("500 MB", 5 * 10**8), ("2GB", 2 * 10**9), ("1.5kb", 1500), ("7b", 7)],
)
def test_sizes(value: Any, size: int) -> None:
    assert TypeAdapter(Bytes).validate_python(value) == size


@each("value", ["", "2 GiB", "2TB", "G", "-1", "0", 0, "9" * 400, None])
def test_invalid_sizes(value: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Bytes).validate_python(value)


@each("value", ["mon", "Mon", "MONDAY", "Monday", " mond "])
def test_weekdays(value: str) -> None:
    assert notations.parse_weekday(value) == "mon"


@each("value", ["", "mo", "mondays", "monkey", "Montag", 1, True, None])
def test_invalid_weekdays(value: Any) -> None:
    with pytest.raises(ValueError, match="not a weekday"):
        notations.parse_weekday(value)


TOO_LONG = "x" * 1001
REFUSED: list[tuple[str, Any, str]] = [
    ("category_schedule", {"mon": "nope"}, "no category 'nope'"),
    ("category_schedule", {"mon": None}, "valid string"),
    ("category_schedule", {"mon": False}, "valid string"),
    ("category_schedule", "mon", "valid dictionary"),
    ("category", "nope", "known are tests, refactoring, docs, security, performance"),
    ("categories", {"tests": "x"}, "built in"),
    ("categories", {"Big One": "x"}, "lower-case letters"),
    ("categories", {"x" * 41: "x"}, "lower-case letters"),
    ("timezone", "Mars/Olympus", "not a time zone"),
    ("timezone", "../UTC", "not a time zone"),
    ("timezone", "Europe", "not a time zone"),
    ("quiet_dates", ["24.12.2025"], "expected a date such as 2025-12-24"),
    ("quiet_dates", [0], "expected a date such as 2025-12-24"),
    ("quiet_dates", ["2025-02-30"], "valid date"),
    ("enabled", "perhaps", "valid boolean"),
    ("enabled", 2, "valid boolean"),
    ("max_diff_lines", True, "cannot be true or false"),
    ("max_diff_lines", 0, "greater than or equal to 1"),
    ("max_diff_lines", "many", "valid integer"),
    ("max_diff_lines", 1.5, "valid integer"),
    ("avoid_recent_commits", -1, "greater than or equal to 0"),
    ("max_open_mrs", {"per_category": -1}, "greater than or equal to 0"),
    ("max_open_mrs", 3, "a dictionary or an instance of MaxOpenMrs"),
    ("max_budget_usd", 0, "greater than 0"),
    ("max_budget_usd", "inf", "finite"),
    ("max_budget_usd", float("nan"), "finite"),
    ("max_tokens", 0, "greater than 0"),
    ("max_tokens", True, "cannot be true or false"),
    ("idle_timeout", True, "cannot be true or false"),
    ("max_output", "2 GiB", "not a size"),
    ("max_implement_retries", 11, "less than or equal to 10"),
    ("paths", ["/etc"], "relative to the repository"),
    ("paths", ["../x"], "relative to the repository"),
    ("paths", [""], "expected a path pattern"),
    ("paths", "src", "valid list"),
    ("exclude_paths", ["~/x"], "relative to the repository"),
    ("agent", "gpt", "'claude_code'"),
    ("agent_env", ["JAVA HOME"], "name of a variable"),
    ("agent_env", ["JAVA_HOME=/opt"], "name of a variable"),
    ("replay_dir", None, "agent: replay needs"),
    ("model_endpoint", "ftp://x", "https://models.example.org"),
    ("repo_url", "https://user:x@gitlab.example.com/a", "https://gitlab.example.com"),
    ("repo_url", "https://[", "Invalid IPv6"),
    ("repo_url", "https://", "https://gitlab.example.com"),
    ("variables", {"category": "x"}, "category is built in"),
    ("variables", {"Team": "x"}, "lower-case letters"),
    ("variables", {"team": 5}, "valid string"),
    ("categories", {"all": "x"}, "built in"),
    ("instructions", {"dcos": "x"}, "no category 'dcos'; known are .*, all, task"),
    ("instructions", {"all": 5}, "valid string"),
    ("instructions", {"all": "x" * 100_000}, "100000 characters; at most 10000"),
    ("instructions", {"all": "{{category}}"}, r"\{\{category\}\} is not one of your variables"),
    ("allowed_commands", ["make *"], r"must not contain \*"),
    ("allowed_commands", [""], "a command on one line"),
    ("verify_commands", ['make "x'], "No closing quotation"),
    ("verify_commands", ["make\ntest"], "a command on one line"),
    ("verify_commands", ["make\0test"], "a command on one line"),
    ("verify_commands", ["'' x"], "a command on one line"),
    ("verify_commands", [TOO_LONG], "of at most 1000 characters"),
    ("verify_commands", ["make test && make lint"], "&& needs a shell, and none is used"),
    ("verify_commands", ["pytest -q 'a b' | tee log"], r"\| needs a shell"),
    ("verify_commands", ["make test; make lint"], "; needs a shell"),
    ("verify_commands", ["pytest -q 2>/dev/null"], "> needs a shell"),
    ("verify_commands", ["make JOBS=$(nproc) test"], r"\$\( needs a shell"),
    ("verify_commands", ["CI=1 make test"], "write env NAME=value"),
    ("allowed_commands", ["make test && make lint"], "&& needs a shell"),
    ("baseline", "maybe", "'required' or 'report'"),
    ("branch_prefix", "-x/", "letters, digits"),
    ("branch_prefix", "a..b/", "git allows no branch"),
    ("branch_prefix", "a.lock/", "git allows no branch"),
    ("branch_prefix", "a//b", "git allows no branch"),
    ("branch_prefix", "a b", "letters, digits"),
    ("branch_prefix", "refs/heads/", "git allows no branch"),
    ("branch_prefix", "a" * 101, "at most 100"),
    ("title_template", "", "it is empty"),
    ("title_template", "a\tb", "must not contain tabs"),
    ("commit_template", " \n ", "it is empty"),
    ("commit_template", "\0{{message}}", "or control characters"),
    ("labels", [""], "1 to 255"),
    ("labels", ["a,b"], "without a comma"),
    ("labels", ["a\nb"], "on one line"),
    ("labels", ["a" * 256], "1 to 255"),
    ("task_test", "unit", "set task too"),
    ("models", {"analyze": ""}, "id of a model"),
    ("models", {"mr": "a b"}, "without spaces"),
    ("record_dir", "a\0b", "a NUL"),
    ("paths", ["a\0b"], "a NUL"),
    ("max_budget_usd", 1e300, "less than or equal"),
    ("max_tokens", 10**30, "less than or equal"),
    ("max_output", 10**30, "less than or equal"),
    ("max_diff_lines", 10**30, "less than or equal"),
    ("max_open_mrs", {"total": 10**30}, "less than or equal"),
    ("prices", {"m": {"input": 1e300, "output": 1}}, "less than or equal"),
    ("output_dir", "a" * 101, "pattern"),
    ("commit_author", "me", "'host' or 'token'"),
    ("output_dir", ".git", "pattern"),
    ("output_dir", "a/b", "pattern"),
    ("output_dir", "..", "pattern"),
    ("profile", "test", "'production' or 'development'"),
    ("isolation", "docker", "'auto'"),
    ("accept_partial", ["netwrok"], "'files', 'secrets', 'network' or 'lifetime'"),
    ("policy", {"gates": {"write": "no"}}, "'auto_allow'"),
    ("policy", {"flags": {"binary-file": "loud"}}, "'fail', 'warn' or 'off'"),
    ("policy", {"test_commands": {"unit": {"command": []}}}, "at least 1 item"),
    ("prices", {"m": {"input": -1, "output": 1}}, "greater than or equal to 0"),
    ("prices", {"m": {"input": 1}}, "Field required"),
    ("notify", ["topic"], "a URL such as"),
    ("notify_on", ["GREAT"], "'MR_CREATED'"),
]


@each(("key", "value", "why"), REFUSED)
def test_invalid_values(key: str, value: Any, why: str) -> None:
    others = {"agent": "replay"} if key == "replay_dir" else {}
    with pytest.raises(ValidationError, match=why) as caught:
        build_settings({**others, key: value})
    assert [problem["loc"][0] for problem in caught.value.errors()] == [key]


@each(
    "value",
    [
        "git@gitlab.example.com:group/project.git",
        "ssh://git@gitlab.example.com:2222/group/project.git",
        "ssh://gitlab.example.com/group/project",
        "https://gitlab.example.com/group/project",
    ],
)
def test_an_ssh_address_becomes_a_web_address(value: str) -> None:
    settings = build_settings({"repo_url": value})
    assert settings.repo_url == "https://gitlab.example.com/group/project"


@each(
    ("key", "value"),
    [
        ("category_schedule", {"Saturday": "docs", "sun": "tests"}),
        ("category_schedule", {}),
        ("timezone", "Europe/Berlin"),
        ("enabled", "false"),
        ("max_diff_lines", "50"),
        ("max_open_mrs", {"per_category": 0}),
        ("paths", ["src/**", "!src/vendor", "docs"]),
        ("agent_env", ["JAVA_HOME", "SBT_OPTS", "_x"]),
        ("allowed_commands", []),
        ("allowed_commands", ["pytest", "make test"]),
        ("verify_commands", ["  make test  ", "sh -c 'a; b'", "make CI=1 test"]),
        ("verify_commands", [r"find . -exec x {} \;", 'go test -run "A|B"', "env CI=1 make"]),
        ("labels", []),
        ("branch_prefix", "bot/night-shift_1."),
        ("title_template", "Night: {{title}}"),
        ("commit_template", "{{title}}\r\n\r\n{{message}}\n"),
        ("labels", ["night shift", "größe::m"]),
        ("output_dir", "night.out"),
        ("model_endpoint", "http://127.0.0.1:8080/v1"),
        ("repo_url", "https://gitlab.example.com:8443/git/group/project"),
        ("notify", ["$NTFY_URL", "mailto://$USER:$PASSWORD@example.com"]),
        ("notify_on", ["SKIPPED"]),
        ("confluence_page_id", 12345),
        ("prices", {"m": {"input": 0, "output": "2.5"}}),
        ("policy", {"test_commands": {"unit": {"command": ["make", "test"], "args": ["-v"]}}}),
    ],
)
def test_valid_values(key: str, value: Any) -> None:
    build_settings({key: value})


@each(
    "name",
    """GITLAB_TOKEN gitlab_token CI_JOB_TOKEN CI_REPOSITORY_URL CI_REGISTRY_PASSWORD
    CI_DEPLOY_PASSWORD CI_DEPENDENCY_PROXY_PASSWORD CI_JOB_JWT CI_JOB_JWT_V2 CI_BUILD_TOKEN
    GITLAB_PRIVATE_TOKEN PRIVATE_TOKEN GL_TOKEN GITLAB_PAT GITLAB_DEPLOY_KEY JOB_TOKEN
    CI_SERVER_TLS_KEY_FILE DOCKER_AUTH_CONFIG TRIGGER_PAYLOAD""".split(),
)
def test_no_agent_gets_a_gitlab_credential(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is a GitLab credential"):
        build_settings({"agent_env": [name]})


@each("name", ["CI_PROJECT_DIR", "GITLAB_USER_LOGIN", "CI_COMMIT_SHA", "CI"])
def test_other_variables_of_gitlab_may_be_passed(name: str) -> None:
    assert build_settings({"agent_env": [name]}).agent_env == [name]


def test_utc_needs_no_time_zone_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notations, "_list_time_zones", set)
    assert load_settings({}).timezone == "UTC"
    with pytest.raises(ValueError, match="not a time zone"):
        notations.check_time_zone("Europe/Berlin")


def test_a_teams_own_category_may_be_scheduled() -> None:
    values = {"categories": {"a11y": "x"}, "category": "a11y"}
    settings = build_settings({**values, "category_schedule": {"sun": "a11y"}})
    assert (settings.category, settings.category_schedule) == ("a11y", {"sun": "a11y"})


def test_a_date_stays_a_date() -> None:
    assert notations.parse_date(datetime.date(2025, 1, 2)) == datetime.date(2025, 1, 2)
