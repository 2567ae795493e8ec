"""The sources of settings, their precedence, and reports of all mistakes."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.settings.config_file import ConfigFile
from gitlab_nightshift.settings.load import (
    ENV_PREFIX,
    TEMPLATE_VARIABLES,
    build_settings,
    load_settings,
)
from gitlab_nightshift.settings.model import Settings
from tests.support.runaway import bounded
from tests.support.tables import each

TEMPLATE = Path(__file__).parents[2] / "ci/templates/.gitlab-ci.yml"
NOTHING: Mapping[str, str] = {}


def load(
    text: str = "", env: Mapping[str, str] = NOTHING, overrides: Mapping[str, str] = NOTHING
) -> Settings:
    return load_settings(env, ConfigFile("nightshift.yaml", text), overrides)


def mistakes(
    text: str = "", env: Mapping[str, str] = NOTHING, overrides: Mapping[str, str] = NOTHING
) -> list[str]:
    with pytest.raises(NightshiftError) as caught:
        load(text, env, overrides)
    assert caught.value.code is Code.CONFIG
    return caught.value.message.splitlines()


# --- precedence -----------------------------------------------------------------------------------

FILE = "# the night\nmodels:\n  analyze: from-file\n  verify: from-file\nmax_diff_lines: 20\n"
VARIABLES = {"NIGHTSHIFT_MODELS__VERIFY": "from-variable", "NIGHTSHIFT_MAX_DIFF_LINES": "30"}


def test_command_line_over_variable_over_file_over_default() -> None:
    settings = load(FILE, VARIABLES, {"max_diff_lines": "40"})
    keys = ("models.mr", "models.analyze", "models.verify", "max_diff_lines")
    values = settings.flatten_values()
    assert [(values[key], settings.find_source(key)) for key in keys] == [
        ("claude-sonnet-4-6", "default"),
        ("from-file", "nightshift.yaml:3"),
        ("from-variable", "variable NIGHTSHIFT_MODELS__VERIFY"),
        (40, "command line"),
    ]


def test_a_group_as_json_sets_only_the_keys_it_names() -> None:
    settings = load(FILE, {"NIGHTSHIFT_MODELS": '{"verify": "v"}'}, {"models": '{"mr": "m"}'})
    assert vars(settings.models) == {
        "analyze": "from-file",
        "implement": "claude-opus-4-6",
        "verify": "v",
        "mr": "m",
    }
    assert settings.find_source("models.verify") == "variable NIGHTSHIFT_MODELS"
    assert settings.find_source("models.implement") == "default"


def test_a_mapping_is_set_as_a_whole_or_by_key() -> None:
    mapping = load("category_schedule: {mon: docs}")
    assert mapping.category_schedule == {"mon": "docs"}
    variable = {"NIGHTSHIFT_CATEGORY_SCHEDULE__TUE": "docs"}
    assert load("", variable).category_schedule["tue"] == "docs"
    assert load("", variable).category_schedule["mon"] == "tests"
    both = load("category_schedule: {mon: docs}", variable)
    assert both.category_schedule == {"mon": "docs", "tue": "docs"}
    named = "nightshift.yaml:1, variable NIGHTSHIFT_CATEGORY_SCHEDULE__TUE"
    assert both.find_source("category_schedule") == named
    assert mapping.find_source("category_schedule.mon") == "nightshift.yaml:1"
    last = load("", variable, {"category_schedule": '{"sun": "docs"}'})
    assert last.category_schedule == {"sun": "docs"}
    assert last.find_source("category_schedule") == "command line"


@each("value", ["", " ", "\n"])
def test_an_empty_variable_is_not_set(value: str) -> None:
    settings = load("category: docs", {"NIGHTSHIFT_CATEGORY": value})
    assert (settings.category, settings.find_source("category")) == ("docs", "nightshift.yaml:1")


def test_white_space_around_a_variable_is_stripped() -> None:
    env = {"NIGHTSHIFT_CATEGORY": " docs ", "NIGHTSHIFT_ENABLED": "false\n"}
    settings = load("", env)
    assert (settings.category, settings.enabled) == ("docs", False)


@each(
    ("text", "expected"),
    [
        ("a, b ,,c", ["a", "b", "c"]),
        ("a", ["a"]),
        ('["a, b", "c"]', ["a, b", "c"]),
        (' ["a"]\n', ["a"]),
        ("[]", []),
        ("a -x b,c\nd\n", ["a -x b,c", "d"]),
        (",", []),
    ],
)
@each("name", ["ALLOWED_COMMANDS", "VERIFY_COMMANDS", "AGENT_PATHS"])
def test_lists_in_variables(name: str, text: str, expected: list[str]) -> None:
    assert getattr(load("", {f"NIGHTSHIFT_{name}": text}), name.lower()) == expected


def test_mappings_in_variables() -> None:
    env = {
        "NIGHTSHIFT_CATEGORIES": '{"a11y": "Labels."}',
        "NIGHTSHIFT_CATEGORY": "a11y",
        "NIGHTSHIFT_VARIABLES__TEAM": "core",
        "NIGHTSHIFT_POLICY__TEST_COMMANDS__UNIT__COMMAND": "make,test",
        "NIGHTSHIFT_POLICY__GATES": '{"write": "deny"}',
        "NIGHTSHIFT_PRICES": '{"m": {"input": 1, "output": 2}}',
    }
    settings = load("", env)
    assert settings.guidance["a11y"] == "Labels."
    assert settings.variables == {"team": "core"}
    assert settings.policy.test_commands["unit"].command == ["make", "test"]
    assert (settings.policy.gates.write, settings.policy.gates.exec) == ("deny", "deny")
    assert settings.prices["m"].output == 2


@each("value", ["true", "True", "1", "yes", "on"])
def test_switches_in_variables(value: str) -> None:
    assert load("", {"NIGHTSHIFT_DRY_RUN": value}).dry_run is True


def test_other_variables_are_ignored() -> None:
    env = {"NIGHTSHIFT": "true", "MY_NIGHTSHIFT_X": "1", "nightshift_x": "1", "CI_X": "1"}
    assert load("", env).flatten_values() == load_settings({}).flatten_values()


def test_the_templates_variables_are_accepted() -> None:
    parts = yaml.safe_load_all(TEMPLATE.read_text().replace("!reference", ""))
    variables = next(part["variables"] for part in parts if "variables" in part)
    ours = {name for name in variables if name.startswith(ENV_PREFIX)}
    of_settings = {f"NIGHTSHIFT_{key.upper()}" for key in vars(Settings())}
    assert ours - of_settings == TEMPLATE_VARIABLES
    as_sent = {
        name: each["value"] if isinstance(each, dict) else each for name, each in variables.items()
    }
    assert load("", as_sent) == Settings()


@each(
    ("text", "env"),
    [
        ("notify: ['ntfys://$NIGHTSHIFT_NTFY@ntfy.sh/x']", {}),
        ("code_agent: {notify: ['${NIGHTSHIFT_NTFY}']}", {}),
        ("", {"NIGHTSHIFT_NOTIFY": "$NIGHTSHIFT_NTFY"}),
    ],
)
def test_a_variable_in_a_notification_url_is_not_a_setting(text: str, env: dict[str, str]) -> None:
    assert load(text, {**env, "NIGHTSHIFT_NTFY": "x"}).notify
    assert mistakes("", {"NIGHTSHIFT_NTFY": "x"})[0].startswith("NIGHTSHIFT_NTFY: ntfy: unknown")


# --- mistakes -------------------------------------------------------------------------------------

MANY = """\
max_tokns: 5
models:
  verfy: x
policy:
  gates:
    wrte: deny
    exec: perhaps
  test_commands:
    unit:
      comand: [make]
category_schedule:
  mon: docs
  tue: nope
verify_commands:
  - make test
  - 'make "x'
quiet_dates: [2025-02-30]
category: typo
idle_timeout: soon
"""


def test_all_mistakes_are_reported_with_their_places() -> None:
    env = {"NIGHTSHIFT_MAX_DIFF": "3", "NIGHTSHIFT_PRICES": "{", "NIGHTSHIFT_AGENT": "gpt"}
    lines = mistakes(MANY, env, {"modles.verify": "x", "draft": "perhaps"})
    for begin, end in [
        ("nightshift.yaml:1: max_tokns: unknown key", "did you mean max_tokens?"),
        ("nightshift.yaml:3: models.verfy: unknown key", "did you mean models.verify?"),
        ("nightshift.yaml:6: policy.gates.wrte: unknown", "did you mean policy.gates.write?"),
        ("nightshift.yaml:7: policy.gates.exec: should be", "'deny'"),
        ("nightshift.yaml:10: policy.test_commands.unit.comand: unknown", "unit.command?"),
        ("nightshift.yaml:9: policy.test_commands.unit.command: is missing", ""),
        ("nightshift.yaml:13: category_schedule.tue: no category 'nope'", "performance"),
        ("nightshift.yaml:16: verify_commands.1: cannot be split", "No closing quotation"),
        ("nightshift.yaml:17: quiet_dates.0: should be a valid date", ""),
        ("nightshift.yaml:18: category: no category 'typo'", ""),
        ("nightshift.yaml:19: idle_timeout: not a duration", "10m, 2h"),
        ("NIGHTSHIFT_MAX_DIFF: max_diff: unknown key", "did you mean max_diff_lines?"),
        ("NIGHTSHIFT_PRICES: prices: not valid JSON", ""),
        ("NIGHTSHIFT_AGENT: agent: should be 'auto'", ""),
        ("command line: modles: unknown key", "did you mean models?"),
        ("command line: draft: should be true or false", ""),
    ]:
        assert any(row.startswith(begin) and row.endswith(end) for row in lines), (begin, lines)
    assert len(lines) == 16
    assert not any("pydantic" in row for row in lines)


def test_a_mistake_is_reported_once() -> None:
    text = "categories: {Big One: x}\ncategory: Big One\ncategory_schedule: {mon: Big One}\n"
    assert mistakes(text) == [
        "nightshift.yaml:1: categories.Big One: a category's name consists of lower-case "
        "letters, digits and dashes"
    ]


def test_the_place_is_that_of_the_value_in_force() -> None:
    assert mistakes("max_diff_lines: 0", {"NIGHTSHIFT_MAX_DIFF_LINES": "x"}) == [
        "NIGHTSHIFT_MAX_DIFF_LINES: max_diff_lines: should be a whole number"
    ]


@each(
    ("text", "expected"),
    [
        ("tasks: x", "did you mean task?"),
        ("Max-Diff-Lines: 1", "did you mean max_diff_lines?"),
        ("xyzzy: 1", "xyzzy: unknown key"),
        ("gitlab_token: x", "gitlab_token: unknown key; secrets come from CI variables only"),
        ("ANTHROPIC_API_KEY: x", "unknown key; secrets come from CI variables only"),
        ("on: x", "nightshift.yaml:1: True: unknown key"),
        ("1: x", "nightshift.yaml:1: 1: unknown key"),
        ('"[key]": 1', "nightshift.yaml:1: [key]: unknown key"),
        ("? [a]\n: x", "not YAML: found unhashable key"),
        ('"a\\nb\\e[31m": 1', "nightshift.yaml:1: a b [31m: unknown key"),
        ("a" * 900 + ": 1", "a…"),
        ("models: 5", "models: should be keys with values"),
        ("models:", "models: should be keys with values"),
        ("labels: x", "labels: should be a list"),
        ("max_budget_usd: much", "max_budget_usd: should be a number"),
        ("target_branch: 5", "target_branch: should be text"),
        ("log_issue: yes", "log_issue: cannot be true or false, nor yes"),
        ("output_dir: a/b", "output_dir: should be one folder's name"),
        ("confluence_page_id: night", "confluence_page_id: should be the page's id"),
        ("code_agent: 5", "code_agent: expected keys and values"),
        ("code_agent: {code_agent: {}}", "code_agent: unknown key"),
        ("code_agent: {modles: {}}", "modles: unknown key; did you mean models?"),
        ("nightshift: {}", "nightshift: unknown key"),
    ],
)
def test_a_mistake_is_one_line(text: str, expected: str) -> None:
    (line,) = mistakes(text)
    assert expected in line
    assert line.isprintable()


@each(
    ("name", "why"),
    [
        ("NIGHTSHIFT_X", "x: unknown key"),
        ("NIGHTSHIFT_MODELS__VERFY", "did you mean models.verify?"),
        ("NIGHTSHIFT_", ": unknown key"),
        ("NIGHTSHIFT___", "unknown key"),
        ("NIGHTSHIFT_CODE_AGENT__DRAFT", "code_agent: unknown key"),
        ("NIGHTSHIFT_GITLAB_TOKEN", "secrets come from CI variables only"),
        ("NIGHTSHIFT_MODELS", "not valid JSON"),
        ("NIGHTSHIFT_POLICY", "not valid JSON"),
        ("NIGHTSHIFT_VARIABLES", "not valid JSON"),
    ],
)
def test_unknown_variables_are_mistakes(name: str, why: str) -> None:
    (line,) = mistakes("", {name: "the value"})
    assert why in line
    assert "the value" not in line


@each("name", ["PATHS", "MODELS", "POLICY__TEST_COMMANDS"])
def test_json_without_end_is_a_mistake(name: str) -> None:
    (line,) = mistakes("", {f"NIGHTSHIFT_{name}": "[" * 200_000})
    assert "not valid JSON" in line


# --- the file -------------------------------------------------------------------------------------


@each("text", ["", "# nothing\n", "---\n", "{}", "code_agent:\n", "policy: {}"])
def test_an_empty_file_sets_nothing(text: str) -> None:
    assert load(text) == Settings()


@each(
    ("text", "expected"),
    [
        ("a: [1", r"nightshift\.yaml:1: not YAML: "),
        ("a: 1\n b: 2", r"nightshift\.yaml:2: not YAML: mapping values are not allowed here"),
        ("a:\n\t- x", r"nightshift\.yaml:2: not YAML: found character '\\t'"),
        ("a: 1\n\0", r"nightshift\.yaml:2: not YAML: special characters are not allowed"),
        ("a: *x", r"nightshift\.yaml:1: not YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2", r"nightshift\.yaml:2: not YAML: but found another document"),
        ("a: !!python/object/apply:os.system [id]", r"not YAML: could not determine a constr"),
        ("a: !!timestamp soon", r"nightshift\.yaml: not YAML: "),
        ("a: !!timestamp 2025-02-30", r"nightshift\.yaml: not YAML: day is out of range"),
        ("[a, b]", r"nightshift\.yaml: expected keys and values at the top"),
        ("just text", r"nightshift\.yaml: expected keys and values at the top"),
        ("[\n" * 20_000, r"nightshift\.yaml: not YAML: maximum recursion depth"),
        ("a: " + "{a: " * 50_000, r"nightshift\.yaml: not YAML: maximum recursion depth"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_a_mistake(text: str, expected: str) -> None:
    (line,) = mistakes(text)
    assert re.match(f".*{expected}", line), line


def test_the_alias_means_the_same_as_the_top() -> None:
    settings = load("code_agent:\n  models:\n    mr: x\n  draft: true\nmax_diff_lines: 5\n")
    assert (settings.models.mr, settings.draft, settings.max_diff_lines) == ("x", True, 5)
    assert settings.find_source("models.mr") == "nightshift.yaml:3"


def test_a_key_in_both_places_is_a_mistake() -> None:
    text = "code_agent:\n  models: {mr: x}\n  labels: [a]\nlabels: [b]\nmodels: {mr: y}\n"
    assert mistakes(text) == [
        "nightshift.yaml:2: models.mr is set twice, here and at the top",
        "nightshift.yaml:3: labels is set twice, here and at the top",
    ]


def test_a_key_twice_in_one_place_is_a_mistake() -> None:
    text = "draft: true\nmodels:\n  mr: x\n  mr: y\ndraft: false\nprices: {m: {input: 1, input: 2}}"
    assert mistakes(text)[:3] == [
        "nightshift.yaml:5: draft is set twice, also in line 1",
        "nightshift.yaml:6: input is set twice, also in line 6",
        "nightshift.yaml:4: mr is set twice, also in line 3",
    ]


def test_anchors_and_merge_keys_are_allowed() -> None:
    text = """\
models: &models
  analyze: x
  verify: y
code_agent:
  prompts:
    mr: a.md
variables: &v {team: core}
"""
    assert load(text).models.analyze == "x"
    merged = load("policy:\n  gates: &g {write: deny}\n  test_commands: {}\nmodels:\n  <<: {mr: m}")
    assert merged.models.mr == "m"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


CYCLES = [
    BOMB,
    BOMB + "labels: *j\n",
    BOMB + "notify: *j\n",
    BOMB + "policy: {test_commands: *j}\n",
    BOMB + "variables: {x: *j}\n",
    "&a [*a]",
    "labels: &a [*a]",
    "models: &a {mr: *a, models: *a}",
    "&a {code_agent: *a, models: *a}",
    "policy: &a {gates: *a, test_commands: *a}",
]


@each("text", CYCLES)
def test_bombs_and_cycles_are_mistakes_at_once(text: str) -> None:
    with bounded():
        assert len("\n".join(mistakes(text))) < 5000


# --- secrets --------------------------------------------------------------------------------------

SECRETS = [
    "glpat-abcdefghij0123456789",
    "glpat-" + "a1B2_-." * 6,
    "gldt-abcdefghij0123456789",
    "glrt-abcdefghij0123456789",
    "glcbt-64_abcdefghij0123456789",
    "glptt-0123456789abcdef0123456789abcdef01234567",
    "gloas-0123456789abcdef0123456789abcdef",
    "glft-abcdefghij0123456789",
    "glsoat-abcdefghij0123456789",
    "sk-ant-api03-abcdefghij_0123456789-xyz",
    "sk-ant-oat01-abcdefghij0123456789",
    "sk-proj-abcdefghij0123456789",
    "sk-abcdefghij0123456789abcdefghij",
    "ghp_abcdefghij0123456789abcdefghij012345",
    "github_pat_11ABCDEFG0abcdefghij_0123456789",
    "xoxb-0123456789-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "-----BEGIN RSA PRIVATE KEY-----",
    "https://user:hunter2@example.com/hook",
]


@each("secret", SECRETS)
@each(
    "text",
    ["notify:\n  - '{}'", "variables: {{x: '{}'}}", "\ntask: |\n  do\n  it {}\n", "\n# old: {}\n"],
)
def test_a_secret_in_the_file_is_an_error_that_does_not_repeat_it(secret: str, text: str) -> None:
    found = [row for row in mistakes(text.format(secret)) if "a secret" in row]
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "{}" in row)
    assert found == [f"nightshift.yaml:{line}: a secret; put it into a masked CI variable"]


@each(
    "text",
    [
        "global-state-management-library",
        "task-force-for-everything-in-here",
        "risk-assessment-of-the-whole-thing",
        "https://example.com/a:b",
        "mailto://$USER:$PASSWORD@example.com",
        "git@gitlab.example.com:group/project",
        "src/sk-SK/messages.properties",
    ],
)
def test_a_text_may_resemble_a_secret(text: str) -> None:
    assert load(f"variables: {{x: '{text}'}}").variables == {"x": text}


KEYS = st.sampled_from([*vars(Settings()), "code_agent", "verify", "mr", "x"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_file_is_settings_or_mistakes(data: dict[str, object]) -> None:
    text = yaml.safe_dump(data)
    try:
        assert isinstance(load(text), Settings)
    except NightshiftError as error:
        assert error.code is Code.CONFIG
        assert error.message
        assert all(row.isprintable() for row in error.message.split("\n"))


@given(st.dictionaries(KEYS.map(str.upper), st.text(max_size=60), max_size=4))
def test_any_variables_are_settings_or_mistakes(variables: dict[str, str]) -> None:
    try:
        load("", {f"NIGHTSHIFT_{name}": value for name, value in variables.items()})
    except NightshiftError as error:
        assert error.code is Code.CONFIG


def test_accept_partial_from_every_source() -> None:
    by_file = load("accept_partial: [network]\n")
    by_variable = load("", {"NIGHTSHIFT_ACCEPT_PARTIAL": "network,files"})
    by_call = load("accept_partial: [files]\n", overrides={"accept_partial": "network"})
    assert [s.accept_partial for s in (by_file, by_variable, by_call)] == [
        ["network"],
        ["network", "files"],
        ["network"],
    ]
    (line,) = mistakes("accept_partial:\n- files\n- netwrok\n")
    assert line == (
        "nightshift.yaml:3: accept_partial.1: should be 'files', 'secrets', 'network' or 'lifetime'"
    )


def test_unvalidated_defaults_are_as_validated() -> None:
    assert load_settings({}) == build_settings(asdict(Settings()))
