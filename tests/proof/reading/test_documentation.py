"""Links and code examples in changed documentation."""

from tests.support.judging import Judge
from tests.support.tables import each

REPOSITORY = {
    "README.md": "# Shop\n\nSee [install](docs/install.md#on-linux).\n",
    "docs/install.md": (
        "# Install\n\n## On Linux\n\n## On `mac OS`: new\n\n## On Linux\n\n<a id='old'></a>\n"
    ),
    "docs/a b.md": "# Blanks\n",
    "src/cart.py": "x = 1\n",
}


@each(
    "link",
    [
        "[a](docs/instal.md)",
        "[a](docs/install.md#on-windows)",
        "![a](logo.png)",
        "[a](#nowhere)",
        "[a][b]\n\n[b]: docs/gone.md",
        "[a](/docs/gone.md)",
        "- item\n  [a](gone/)",
    ],
)
def test_broken_links(raised: Judge, link: str) -> None:
    text = f"# Shop\n\n{link}\n"
    [found] = raised(REPOSITORY, {"README.md": text}, "broken-link")
    lines = text.split("\n")
    assert "](" in lines[found.line - 1] or "]:" in lines[found.line - 1]


@each(
    "link",
    [
        "[a](docs/install.md)",
        "[a](docs/install.md#on-linux)",
        "[a](docs/install.md#on-linux-1)",
        "[a](docs/install.md#on-mac-os-new)",
        "[a](docs/install.md#old)",
        "[a](docs/a%20b.md)",
        "[a](<docs/a b.md>)",
        "[a](docs)",
        "[a](src/cart.py#L12)",
        "[a](#shop)",
        "[a](https://gone.example)",
        "[a](mailto:a@example.org)",
        "[a](../../issues)",
        "`[a](gone.md)`",
        "```\n[a](gone.md)\n```",
    ],
)
def test_working_links(raised: Judge, link: str) -> None:
    assert raised(REPOSITORY, {"README.md": f"# Shop\n\n{link}\n"}, "broken-link") == []


def test_a_removed_heading_breaks_links_to_it(raised: Judge) -> None:
    before = {"a.md": "- [Use](#use)\n\n# Use\n\nText.\n"}
    [found] = raised(before, {"a.md": "- [Use](#use)\n\n# Usage\n\nText.\n"}, "broken-link")
    assert found.line == 1


def test_a_link_that_was_broken_before_is_no_finding(raised: Judge) -> None:
    before = {"a.md": "[a](gone.md)\n\nText.\n"}
    assert raised(before, {"a.md": "[a](gone.md)\n\nOther text.\n"}, "broken-link") == []


@each("head", ["title: a\n", "", "\n", "\ntitle: a\n", "title: a\n\n"])
def test_front_matter_does_not_shift_line_numbers(raised: Judge, head: str) -> None:
    text = f"---\n{head}---\n# Use\n\n[a](gone.md)\n\nText.\n\n---\n\nText.\n"
    [found] = raised({}, {"a.md": text}, "broken-link")
    assert found.line == 5 + head.count("\n")
