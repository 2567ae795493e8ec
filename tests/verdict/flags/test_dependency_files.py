"""Manifests and lock files: touched in their dependencies, or elsewhere."""

from tests.support.judging import Judge
from tests.support.tables import each

PYPROJECT = (
    '[project]\nname = "a"\nversion = "1"\ndependencies = ["b>=1"]\n\n[tool.ruff]\n'
    "line-length = 90\n"
)
PACKAGE = '{"name": "a", "version": "1", "scripts": {"test": "jest"}, "dependencies": {"b": "1"}}'
CARGO = '[package]\nname = "a"\nversion = "0.1.0"\n\n[dependencies]\nserde = "1"\n'
SETUP = (
    "[metadata]\nname = a\n\n[options]\ninstall_requires =\n    b\n\n"
    "[options.extras_require]\nc = d\n"
)
GOMOD = "module a\n\ngo 1.22\n\nrequire b v1.0.0 // indirect\n"
GRADLE = "group = 'a'\ndependencies {\n    implementation 'b:c:1'\n}\n"
SBT = 'name := "a"\nlibraryDependencies += "b" %% "c" % "1"\n'
POM = (
    "<project>\n<name>a</name>\n"
    "<dependency><artifactId>b</artifactId><version>1</version></dependency>\n"
    "</project>\n"
)


@each(
    ("path", "text", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, "b>=1", "b>=2"),
        ("package.json", PACKAGE, '"b": "1"', '"b": "2"'),
        ("package.json", PACKAGE, '"test": "jest"', '"test": "jest", "postinstall": "node x.js"'),
        ("api/Cargo.toml", CARGO, '"1"', '"2"'),
        ("setup.cfg", SETUP, "    b\n", "    b\n    e\n"),
        ("setup.cfg", SETUP, "c = d", "c = e"),
        ("go.mod", GOMOD, "v1.0.0", "v1.1.0"),
        ("build.gradle", GRADLE, "c:1", "c:2"),
        ("build.sbt", SBT, '"1"', '"2"'),
        ("pom.xml", POM, ">1<", ">2<"),
        ("requirements.txt", "b==1\n", "1", "2"),
        ("Gemfile", "gem 'b'\n", "'b'", "'b', '~> 2'"),
        ("package-lock.json", '{"a": 1}', "1", "2"),
        ("poetry.lock", "a\n", "a", "b"),
    ],
)
def test_dependencies(raised: Judge, path: str, text: str, old: str, new: str) -> None:
    assert old in text
    [found] = raised({path: text}, {path: text.replace(old, new)}, "dependency-file")
    assert (found.file, found.level) == (path, "fail")


@each(
    ("path", "text", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, "90", "80"),
        ("pyproject.toml", PYPROJECT, 'version = "1"', 'version = "2"'),
        ("package.json", PACKAGE, "jest", "jest --ci"),
        ("Cargo.toml", CARGO, "0.1.0", "0.2.0"),
        ("setup.cfg", SETUP, "name = a", "name = b"),
        ("build.gradle", GRADLE, "'a'", "'z'"),
        ("build.sbt", SBT, '"a"', '"z"'),
        ("pom.xml", POM, "<name>a", "<name>z"),
        ("requirements.txt", "# old\nb==1\nc==1\n", "# old\nb==1\nc==1", "# new\nc==1\nb==1"),
        ("go.mod", GOMOD, " // indirect", " // direct"),
    ],
)
def test_other_settings(raised: Judge, path: str, text: str, old: str, new: str) -> None:
    assert old in text
    assert raised({path: text}, {path: text.replace(old, new)}, "dependency-file") == []


def test_a_manifest_that_cannot_be_read(raised: Judge) -> None:
    found = raised({"package.json": PACKAGE}, {"package.json": PACKAGE[:-1]}, "dependency-file")
    assert [f.detail for f in found] == [
        "Another choice of what is installed: the file cannot be read."
    ]


def test_new_and_deleted_manifests(raised: Judge) -> None:
    assert raised({}, {"web/package.json": PACKAGE}, "dependency-file")
    assert raised({"Cargo.toml": CARGO}, {"Cargo.toml": None}, "dependency-file")
