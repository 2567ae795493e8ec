"""The pipeline file with the include, and the first nightshift.yaml."""

import re

import pytest

from gitlab_nightshift.errors import NightshiftError
from gitlab_nightshift.onboarding.project_files import (
    LACKS,
    TEMPLATE,
    TemplateInclude,
    TriedCommand,
    add_include,
    enable_commands,
    lacks_commands,
    parse_config,
    render_settings,
)

INCLUDE = TemplateInclude(
    "acme/gitlab-nightshift",
    "v0.2.0",
    {"image": "python:3.12"},
    {"image": "as your job test"},
    ("pip install -e .",),
)
JOB = "test: # ours\n    script: [make]\n"
FILES = {
    "nothing": "",
    "a comment": "# only this",
    "no include": JOB,
    "no line end": JOB.rstrip(),
    "a list": f"include:\n  - local: /a.yml # kept\n\n# about the test\n{JOB}",
    "a list without indent": f"include:\n- /a.yml\n- project: a/b\n  file:\n    - x.yml\n{JOB}",
    "a list at the end": f"{JOB}include:\n    -   local: /a.yml",
    "a flow list": f"include: [/a.yml, {{local: /b.yml}}]\n{JOB}",
    "an empty list": f"include: []\n{JOB}",
    "a string": f"include: '/a.yml' # kept\n{JOB}",
    "a mapping": f"include:\n  project: a/b\n  file: x.yml\n{JOB}",
    "a flow mapping": f"include: {{local: /a.yml}}\n{JOB}",
    "with a header": f"spec:\n  inputs:\n    a:\n---\ninclude:\n  - /a.yml\n{JOB}",
    "Windows lines": f"include:\r\n  - local: /a.yml\r\n{JOB}".replace("\n", "\r\n"),
    "tags": "a: !reference [b, c]\n",
    "a flow list with a last comma": f"include: [/a.yml, {{local: /b.yml}},]\n{JOB}",
    "the same over lines": f"include: [\n  /a.yml, # x, y\n]\n{JOB}",
    "no last comma but in a comment": f"include: [\n  /a.yml # x, y\n]\n{JOB}",
    "an empty include": f"include:\n{JOB}",
    "an empty include with a comment": f"include: # none yet\n\n{JOB}",
    "an empty include at the end": f"{JOB}include:",
    "a tab after a colon": "unit:\n  variables:\n    A:\t'x'\n    LONG:\tz\n",
    "a tab in a word and before a comment": "unit:\t# ours\n  script:\n    - make\ttest\n",
    "tabs in a flow list": f"include: [/a.yml,\t/b.yml]\n{JOB}",
    "an end": f"{JOB}...\n",
    "an end with words": f"include:\n  - /a.yml\n{JOB}...\n# that is all\n",
    "an end after a header": f"spec:\n  inputs:\n    a:\n---\n{JOB}...",
    "a byte order mark": f"\ufeffinclude: [/a.yml]\n{JOB}",
    "Windows lines, no include": "unit: # x\r\n\r\n  script: [make]\r\n",
    "Windows lines, a mapping": f"include:\n  project: a/b\n\n  file: x.yml\n{JOB}".replace(
        "\n", "\r\n"
    ),
    "both kinds of lines": f"a: 1\r\n{JOB}",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_the_include_is_added_and_nothing_is_lost(text: str) -> None:
    added = add_include(text, INCLUDE, "ci.yml")
    before, after = parse_config(text, "ci.yml"), parse_config(added, "ci.yml")
    item = after["include"][-1]
    assert item == {
        "project": "acme/gitlab-nightshift",
        "ref": "v0.2.0",
        "file": TEMPLATE,
        "inputs": {"image": "python:3.12"},
    }
    assert after[".nightshift:job"]["before_script"] == [None, "pip install -e ."]
    assert {**after, "include": None, ".nightshift:job": None} == {
        **before,
        "include": None,
        ".nightshift:job": None,
    }
    remaining = iter(added.replace("\n", ""))
    assert all(character in remaining for character in text.replace("\n", "")), "text is lost"
    assert add_include(added, INCLUDE, "ci.yml") == added, "a second time changes it"


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_line_endings_are_kept(text: str) -> None:
    added = add_include(text, INCLUDE, "ci.yml")
    kinds = set(re.findall(r"\r?\n", text)) or {"\n"}
    assert set(re.findall(r"\r?\n", added)) <= kinds


def test_an_older_version_is_updated_and_no_other_ref() -> None:
    old = add_include(JOB, INCLUDE, "ci.yml").replace("ref: v0.2.0", "ref: v0.1.10 # pinned")
    assert "ref: v0.2.0 # pinned\n" in add_include(old, INCLUDE, "ci.yml")
    for ref in ("main", "9e107d9d372bb6826bd81d3542a419d6", "v0.2.1", "v0.10"):
        other = old.replace("v0.1.10", ref)
        assert add_include(other, INCLUDE, "ci.yml") == other
    component = "include:\n  - component: 'gitlab.example/acme/gitlab-nightshift/night@0.1.0' # x\n"
    assert add_include(component, INCLUDE, "ci.yml") == component.replace("0.1.0", "0.2.0")


def test_a_job_of_the_same_name_is_left_alone() -> None:
    text = "nightshift:\n  image: mine\n"
    assert add_include(text, INCLUDE, "ci.yml").count("nightshift:\n") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [\nb: 1", "ci.yml is not valid YAML at line 2: fix it first"),
        ("- a\n- b\n", "ci.yml is no mapping of jobs at its top level"),
        ("a: &a [*a]\n", "not valid YAML"),
        ("a: !!timestamp soon", "not valid YAML"),
        ("a: 1\n\tb: 2\n", "not valid YAML at line 2"),
        ("{include: , a: 1}\n", "cannot add to its include"),
        ("include: &a [/x.yml]\nb: *a\nb: 2\n\ta: 1", "not valid YAML"),
        ("include:\n- /a.yml\n- [/b.yml,]\ninclude: 3\n", "cannot add to its include"),
    ],
)
def test_a_file_that_cannot_be_changed_is_an_error(text: str, why: str) -> None:
    with pytest.raises(NightshiftError) as error:
        add_include(text, INCLUDE, "ci.yml")
    assert why in error.value.message and "\n" not in error.value.message


FAILED = (TriedCommand("npm test", 1.0, f"{LACKS}x"), TriedCommand("make", 1.0, "failed"))
PASSED = (TriedCommand("npm test", 2.0), FAILED[1])


def test_a_command_that_passes_later_is_enabled() -> None:
    before = render_settings(FAILED, "code_owners", ("A",)) + "max_diff_lines: 50\n"
    assert lacks_commands(before)
    after = enable_commands(before, PASSED)
    assert after == render_settings(PASSED, "code_owners", ("A",)) + "max_diff_lines: 50\n"
    assert not lacks_commands(after)
    assert enable_commands(before, FAILED) == before
    windows = before.replace("\n", "\r\n")
    assert lacks_commands(windows)
    assert enable_commands(windows, PASSED) == after.replace("\n", "\r\n")
    nothing = render_settings((), "")
    assert enable_commands(nothing, PASSED) == render_settings(PASSED, "")


def test_a_file_of_another_form_is_left_alone() -> None:
    for text in (
        "",
        "reviewer: rita\n",
        "verify_commands: [make]\n",
        "# verify_commands:\n#   - 'a'\nverify_commands: [make]\n",
    ):
        assert not lacks_commands(text), text
