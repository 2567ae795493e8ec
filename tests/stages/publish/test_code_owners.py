"""Who owns files, by GitLab's own examples for CODEOWNERS."""

from gitlab_nightshift.stages.publish.code_owners import find_owners
from tests.support.tables import each

TEXT = r"""
# a comment
* @everyone
*.rb @ruby ruby@acme.example
/docs/ @docs @acme/writers
/config/* @config
README.md @readme
/a\ b/**/*.py @spaces
\#odd @odd
lib/{x @broken

[Backend][2] @acme/backend
*.go
/api/*.go @api
!/api/skipped.go

^[backend] @again
/late.txt

[Roles]
Makefile @@maintainers
"""


@each(
    ("file", "expected"),
    [
        ("x.txt", {("@everyone",)}),
        ("deep/er/x.rb", {("@ruby",)}),
        ("docs/a/b.txt", {("@docs", "@acme/writers")}),
        ("more/docs/a.txt", {("@everyone",)}),
        ("config/a.yml", {("@config",)}),
        ("config/sub/a.yml", {("@everyone",)}),
        ("sub/README.md", {("@readme",)}),
        ("a b/c/d/e.py", {("@spaces",)}),
        ("#odd", {("@odd",)}),
        ("m.go", {("@everyone",), ("@acme/backend",)}),
        ("api/m.go", {("@everyone",), ("@api",)}),
        ("api/skipped.go", {("@everyone",)}),
        ("late.txt", {("@everyone",), ("@again",)}),
        ("Makefile", {("@everyone",), ("@@maintainers",)}),
    ],
)
def test_the_last_match_of_each_section_counts(file: str, expected: set[tuple[str, ...]]) -> None:
    assert set(find_owners(TEXT, [file])) == expected


def test_each_set_of_owners_is_named_once() -> None:
    assert find_owners("* @a", ["x", "y"]) == (("@a",),)
    assert find_owners("", ["x"]) == ()
    assert find_owners("/x", ["x"]) == ()
