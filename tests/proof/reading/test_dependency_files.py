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
NPM_LOCK = """{
  "name": "shop", "version": "1.0.0", "lockfileVersion": 3,
  "packages": {
    "": {"name": "shop", "version": "1.0.0", "dependencies": {"b": "^4.0.0"}},
    "web": {"name": "web", "version": "1.0.0"},
    "node_modules/b": {"version": "4.0.0"}
  }
}
"""
CARGO_LOCK = """version = 4

[[package]]
name = "serde"
version = "1.0.1"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "shop"
version = "1.0.0"
dependencies = ["serde"]
"""
UV_LOCK = """version = 1

[[package]]
name = "shop"
version = "1.0.0"
source = { editable = "." }

[[package]]
name = "six"
version = "2.0"
source = { registry = "https://pypi.org/simple" }
"""
GEM_LOCK = """PATH
  remote: .
  specs:
    shop (1.0.0)
      rack

GEM
  remote: https://rubygems.org/
  specs:
    rack (3.0)

DEPENDENCIES
  shop!
"""
CATALOG = '[versions]\nkotlin = "2.0.0"\n'
COMPILED = (
    "<project><build><plugins><plugin><artifactId>maven-compiler-plugin</artifactId>\n"
    "<configuration>\n<release>17</release>\n</configuration></plugin></plugins></build></project>"
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
        ("package-lock.json", NPM_LOCK, '"4.0.0"', '"4.0.1"'),
        ("package-lock.json", NPM_LOCK, '"^4.0.0"', '"^4.0.1"'),
        ("Cargo.lock", CARGO_LOCK, '"1.0.1"', '"1.0.2"'),
        ("uv.lock", UV_LOCK, '"2.0"', '"2.1"'),
        ("Gemfile.lock", GEM_LOCK, "rack (3.0)", "rack (3.1)"),
        ("gradle/libs.versions.toml", CATALOG, '"2.0.0"', '"2.1.0"'),
        (
            "build.gradle",
            "dependencies {\n    testImplementation libs.junit\n}\n",
            "junit",
            "kotest",
        ),
        ("build.gradle", "ext {\n    junitVersion = '5.10'\n}\n", "10", "11"),
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
        ("package-lock.json", NPM_LOCK, '"1.0.0"', '"1.1.0"'),
        ("Cargo.lock", CARGO_LOCK, '"1.0.0"', '"1.1.0"'),
        ("uv.lock", UV_LOCK, '"1.0.0"', '"1.1.0"'),
        ("Gemfile.lock", GEM_LOCK, "1.0.0", "1.1.0"),
        ("gradle/libs.versions.toml", CATALOG, "[versions]\n", "[versions]\n# the newest\n"),
        ("pom.xml", POM, "<name>a", "<version>2</version>\n<name>a"),
        ("pom.xml", COMPILED, "17", "21"),
        ("build.gradle", "compileJava {\n    options.compilerArgs += ['-a']\n}\n", "-a", "-b"),
        ("build.gradle", "version = '1.0'\n", "1.0", "1.1"),
        ("Shop.csproj", "<Project>\n<LangVersion>12</LangVersion>\n</Project>\n", "12", "13"),
    ],
)
def test_other_settings(raised: Judge, path: str, text: str, old: str, new: str) -> None:
    assert old in text
    assert raised({path: text}, {path: text.replace(old, new)}, "dependency-file") == []


def test_a_manifest_that_cannot_be_read(raised: Judge) -> None:
    found = raised({"package.json": PACKAGE}, {"package.json": PACKAGE[:-1]}, "dependency-file")
    assert [f.detail for f in found] == ["Dependencies or their sources change: the whole file."]


def test_new_and_deleted_manifests(raised: Judge) -> None:
    assert raised({}, {"web/package.json": PACKAGE}, "dependency-file")
    assert raised({"Cargo.toml": CARGO}, {"Cargo.toml": None}, "dependency-file")
