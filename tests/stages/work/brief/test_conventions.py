"""Convention files and their first lines."""

from pathlib import Path

from gitlab_nightshift.stages.work.brief.conventions import (
    MOST_FILES,
    list_convention_files,
    quote_conventions,
)


def test_the_top_comes_first_and_what_is_for_people() -> None:
    paths = ["web/.eslintrc.json", ".editorconfig", "src/a.py", "docs/agents.md", "web/AGENTS.md"]
    assert list_convention_files([*paths, "CONTRIBUTING.md", "sub/README.md", "README.md"]) == [
        "CONTRIBUTING.md",
        "README.md",
        ".editorconfig",
        "web/AGENTS.md",
        "web/.eslintrc.json",
    ]


def test_their_number_is_bounded() -> None:
    assert len(list_convention_files(f"p{n}/AGENTS.md" for n in range(99))) == MOST_FILES


def test_first_lines_that_say_something(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(
        "# Rules\n\n---\n" + "".join(f"rule {n}\n" for n in range(99))
    )
    (tmp_path / ".editorconfig").write_text("root = true\n[*]\nindent_style = space\n# c\nd\ne\n")
    quoted = list(quote_conventions(tmp_path, ["AGENTS.md", ".editorconfig"]))
    assert quoted[0] == ["AGENTS.md", "# Rules", *(f"rule {n}" for n in range(7))]
    assert quoted[1] == [".editorconfig", "root = true", "[*]", "indent_style = space", "# c"]


def test_of_a_python_project_the_settings_of_its_tools(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.ruff]\nline-length = 88\n\n[tool.uv]\nx = 1\n'
        "[tool.pytest.ini_options]\naddopts = '-q'\n"
    )
    expected = ["[tool.ruff]", "line-length = 88", "[tool.pytest.ini_options]", "addopts = '-q'"]
    [quoted] = quote_conventions(tmp_path, ["pyproject.toml", "lib/pyproject.toml"])
    assert quoted == ["pyproject.toml", *expected]


def test_no_link_is_followed_and_a_missing_or_binary_file_is_only_named(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("secret\n")
    top = tmp_path / "top"
    top.mkdir()
    (top / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    (top / "lib").symlink_to(outside)
    (top / "CLAUDE.md").write_bytes(b"\xff\xfe\x00" * 9)
    names = ["AGENTS.md", "lib/AGENTS.md", "CONTRIBUTING.md"]
    assert list(quote_conventions(top, names)) == [
        ["AGENTS.md"],
        ["CONTRIBUTING.md"],
        ["lib/AGENTS.md"],
    ]
    assert "secret" not in str(list(quote_conventions(top, [*names, "CLAUDE.md"])))
