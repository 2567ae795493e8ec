"""Templates: the preamble first, placeholders checked, values never rendered again."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.policy.prompts import (
    BEADS,
    LARGEST_TEMPLATE,
    check_placeholders,
    find_packaged_templates,
    load_bead_template,
    render,
    render_bead_prompt,
)
from gitlab_nightshift.registry.categories import INJECTION_MITIGATION_PREAMBLE
from gitlab_nightshift.settings.load import build_settings
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.notations import PLACEHOLDERS
from gitlab_nightshift.settings.setting_groups import Prompts
from tests.support.tables import each

CONTRACT = """category, category_guidance, date, repo_url, project_path, default_branch, base_sha,
    handoff_file, analysis_file, verify_error, allowed_commands, build_commands, verify_commands,
    recent_files, open_merge_requests, rejected_ideas, max_diff_lines, deadline, reviewer,
    short_description, evidence, last_patch_file"""


def own(path: str | Path, **others: object) -> Settings:
    return build_settings({"prompts": {"verify": str(path)}, **others})


def refusal(settings: Settings, folder: Path) -> str:
    with pytest.raises(NightshiftError) as caught:
        load_bead_template("verify", settings, folder)
    assert caught.value.code is Code.CONFIG
    return caught.value.message


def test_the_placeholders_are_those_of_the_contract() -> None:
    assert set(re.findall(r"\w+", CONTRACT)) == PLACEHOLDERS


@pytest.mark.parametrize("bead", BEADS)
def test_a_bead_has_a_packaged_template(bead: str, tmp_path: Path) -> None:
    text = load_bead_template(bead, Settings(), tmp_path)
    assert text == (find_packaged_templates() / f"{bead}.md").read_text()
    assert set(vars(Prompts())) == set(BEADS)


@given(st.text(), st.dictionaries(st.sampled_from(sorted(PLACEHOLDERS)), st.text()))
def test_the_preamble_is_always_first(template: str, values: dict[str, str]) -> None:
    prompt = render_bead_prompt(template, values)
    assert prompt.startswith(f"{INJECTION_MITIGATION_PREAMBLE}\n---\n\n")
    assert prompt.removeprefix(f"{INJECTION_MITIGATION_PREAMBLE}\n---\n\n") == render(
        template, values
    )


@given(st.text(), st.text(min_size=1), st.text())
def test_the_brief_is_below_the_preamble_and_above_the_separator(
    template: str, brief: str, last: str
) -> None:
    prompt = render_bead_prompt(template, {}, brief, last)
    beginning = f"{INJECTION_MITIGATION_PREAMBLE}\n{brief}"
    assert prompt == f"{beginning}\n---\n\n{render(template, {})}{last}"


@pytest.mark.parametrize("name", sorted(PLACEHOLDERS))
def test_each_placeholder_may_stand_in_every_template(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text(f"a {{{{{name}}}}} b")
    template = load_bead_template("verify", own("own.md"), tmp_path)
    assert render(template, {name: "VALUE"}) == "a VALUE b"
    assert render(template, {}) == "a  b", "empty where it has no value yet"


@each(
    ("template", "expected"),
    [
        ("{{category}}{{category}}", "docsdocs"),
        ("{{{category}}}", "{docs}"),
        (r"\{{category}}", "{{category}}"),
        (r"\\{{category}}", r"\{{category}}"),
        (r"\{{{{category}}", "{{docs"),
        ("{{ category }} {{Category}} {{cat egory}}", "{{ category }} {{Category}} {{cat egory}}"),
        ("{{ .Values.x }} ${{ x }} {x} {% if %} $category", None),
        ("{{}} {{", None),
        ("{{date}}", "{{category}} \\1 \\g<0>"),
        ("{{repo_url}}", ""),
    ],
)
def test_rendering(template: str, expected: str | None) -> None:
    values = {"category": "docs", "date": "{{category}} \\1 \\g<0>"}
    assert render(template, values) == (template if expected is None else expected)


@given(st.text())
def test_a_value_is_not_rendered(value: str) -> None:
    assert render("[{{verify_error}}]", {"verify_error": value}) == f"[{value}]"


def test_a_template_may_be_relative_to_the_configuration_or_absolute(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "ci", tmp_path / "else"
    (folder / "prompts").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "prompts/v.md").write_text("relative")
    (elsewhere / "v.md").write_text("absolute")
    assert load_bead_template("verify", own("prompts/v.md"), folder) == "relative"
    assert load_bead_template("verify", own("../else/v.md"), folder) == "absolute"
    assert load_bead_template("verify", own(elsewhere / "v.md"), folder) == "absolute"


def test_the_teams_variables_are_placeholders(tmp_path: Path) -> None:
    (tmp_path / "v.md").write_text("Team {{team}}, {{category}}")
    settings = own("v.md", variables={"team": "core"})
    assert load_bead_template("verify", settings, tmp_path) == "Team {{team}}, {{category}}"
    assert "unknown placeholder {{team}}" in refusal(own("v.md"), tmp_path)


def test_unknown_placeholders_each_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "v.md"
    file.write_text("# Verify\n\n{{categry}} and {{category}}\n{{xyzzy}} \\{{nope}}\n{{tem}}\n")
    assert refusal(own("v.md", variables={"team": "x"}), tmp_path).splitlines() == [
        f"prompts.verify: {file}:3: unknown placeholder {{{{categry}}}}; "
        "did you mean {{category}}?",
        f"prompts.verify: {file}:4: unknown placeholder {{{{xyzzy}}}}",
        f"prompts.verify: {file}:5: unknown placeholder {{{{tem}}}}; did you mean {{{{team}}}}?",
    ]


@pytest.mark.parametrize("name", ["path", "home", "gitlab_token", "ci_job_token"])
def test_the_environment_is_never_reachable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "secret")
    monkeypatch.setenv(name.upper(), "secret")
    (tmp_path / "v.md").write_text(f"{{{{{name}}}}}")
    assert "unknown placeholder" in refusal(own("v.md"), tmp_path)
    assert render(f"{{{{{name}}}}} ${name} ${{{name.upper()}}}", {}) == (
        f" ${name} ${{{name.upper()}}}"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "no such template"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"text\0more", "not UTF-8 text"),
        (b"x" * (LARGEST_TEMPLATE + 1), f"larger than {LARGEST_TEMPLATE} bytes"),
        ("é".encode() * LARGEST_TEMPLATE, f"larger than {LARGEST_TEMPLATE} bytes"),
    ],
    ids=["missing", "binary", "nul", "large", "large, cut within a character"],
)
def test_unusable_templates(data: bytes | None, why: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "v.md").write_bytes(data)
    assert refusal(own("v.md"), tmp_path) == f"prompts.verify: {tmp_path / 'v.md'}: {why}"


def test_a_template_of_the_largest_size_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "v.md").write_bytes(b"x" * LARGEST_TEMPLATE)
    assert len(load_bead_template("verify", own("v.md"), tmp_path)) == LARGEST_TEMPLATE


@pytest.mark.parametrize("path", ["", ".", "/dev/zero"])
def test_only_regular_files_are_read(path: str, tmp_path: Path) -> None:
    if path:
        assert refusal(own(path), tmp_path).endswith(("not a file", "no such template"))
    else:
        assert load_bead_template("verify", own(""), tmp_path), "empty is the packaged one"


def test_known_placeholders_pass() -> None:
    check_placeholders("{{title}} {{ x }} \\{{y}}", {"title"}, "title_template")
