"""Real builds in every tier: ``verify_commands`` of whole nights, offline, caches filled before.

The agent is a replay. A tool that is not installed is a skipped test with its name. Builds that
take longer than a few seconds (Java, Maven, Gradle, Go, Cargo) run where SLOW_TESTS is set.
"""

import io
import json
import os
import shutil
import tarfile
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gitlab_nightshift.host.sandbox.records import Tier
from tests.host.sandbox.tools import SYSTEM_PATH, open_folder
from tests.night.test_plain_user import LIBRARIES, python_of_a_plain_user
from tests.support.shop import DRAFT, FOUND, PASSED, SELECTED
from tests.support.world import PLAIN, ROOT, Files, World, world

TIERS = tuple(str(tier) for tier in Tier if tier is not Tier.NONE)
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "", "usage": {}}


@dataclass(frozen=True)
class Build:
    """A small project: its files, what was there before the night, what has to pass.

    ``env`` is the job's, ``ignored`` lies untracked in the checkout.
    """

    needs: tuple[str, ...]
    files: Files
    commands: tuple[str, ...]
    config: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, bytes] = field(default_factory=dict)
    slow: bool = False


def tarball(name: str) -> bytes:
    """An npm package."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for file, text in (
            ("package.json", json.dumps({"name": name, "version": "1.0.0"})),
            ("index.js", "module.exports = 42\n"),
        ):
            info = tarfile.TarInfo(f"package/{file}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def wheel() -> bytes:
    """A Python package."""
    data, info = io.BytesIO(), "one-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("one.py", "print('one')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/RECORD", "")
    return data.getvalue()


def text(source: str) -> str:
    return textwrap.dedent(source).lstrip()


NODE_TEST = text(
    """
    const test = require('node:test'), assert = require('assert'), http = require('http');
    test('a server', (t, done) => {
      const server = http.createServer((q, r) => r.end()).listen(0, () =>
        http.get({port: server.address().port}, (r) => { server.close(); done(); }));
    });
    """
)
PACKAGE = {
    "name": "shop",
    "version": "1.0.0",
    "scripts": {"test": "node -e \"if (require('dep') !== 42) process.exit(1)\""},
    "dependencies": {"dep": "file:cache/dep.tgz"},
}
LOCK = {
    "name": "shop",
    "version": "1.0.0",
    "lockfileVersion": 3,
    "packages": {
        "": {key: PACKAGE[key] for key in ("name", "version", "dependencies")},
        "node_modules/dep": {"version": "1.0.0", "resolved": "file:cache/dep.tgz"},
    },
}
JAVA = text(
    """
    import java.io.File; import java.net.*;
    public class A { public static void main(String[] a) throws Exception {
      if (!File.createTempFile("night", "").getParent().equals(System.getenv("TMPDIR"))) throw null;
      if (!System.getProperty("user.home").equals(System.getenv("HOME"))) throw null;
      new DatagramSocket(0).close();
      NetworkInterface.getNetworkInterfaces();
      try (ServerSocket s = new ServerSocket(0)) { new Socket("localhost", s.getLocalPort()); }
      var system = java.lang.management.ManagementFactory.getOperatingSystemMXBean();
      ((com.sun.management.OperatingSystemMXBean) system).getTotalMemorySize(); // reads the cgroup
    } }
    """
)
JUNIT = text(
    """
    import org.junit.*; import org.junit.rules.TemporaryFolder;
    public class ATest {
      @Rule public TemporaryFolder folder = new TemporaryFolder();
      @Test public void one() throws Exception { folder.newFile("x"); }
    }
    """
)
POM = text(
    """
    <project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
    <groupId>a</groupId><artifactId>a</artifactId><version>1</version>
    <properties><maven.compiler.source>11</maven.compiler.source>
    <maven.compiler.target>11</maven.compiler.target></properties>
    <dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId>
    <version>4.x</version><scope>test</scope></dependency></dependencies></project>
    """
)
GRADLE = text(
    """
    apply plugin: 'java'
    repositories { maven { url 'file:/usr/share/maven-repo' } }
    dependencies { testCompile 'junit:junit:4.x' }
    """
)
GO_TEST = text(
    """
    package a
    import ("net/http"; "net/http/httptest"; "testing")
    func TestServer(t *testing.T) {
        s := httptest.NewServer(http.NotFoundHandler())
        if _, err := http.Get(s.URL); err != nil { t.Fatal(err) }
    }
    """
)
RUST = text(
    """
    #[test] fn server() {
        let l = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        std::net::TcpStream::connect(l.local_addr().unwrap()).unwrap();
    }
    """
)
RUBY = text(
    """
    require 'rake/testtask'
    task(:test) { require 'tmpdir'; Dir.mktmpdir { |d| File.write("#{d}/x", '') } }
    """
)
README = {"README.md": "# Shop\n"}
REPO = "-Dmaven.repo.local=/usr/share/maven-repo"

BUILDS = {
    "make and a C compiler": Build(
        ("make", "gcc"),
        {
            "Makefile": "test: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n",
            "hello.c": "int main(void) { return 0; }\n",
            ".gitignore": "hello\n",
        },
        ("make test",),
    ),
    "node": Build(("node",), {"a.test.js": NODE_TEST}, ("node --test",)),
    "npm": Build(
        ("npm",),
        {
            "package.json": json.dumps(PACKAGE),
            "package-lock.json": json.dumps(LOCK),
            ".gitignore": "node_modules/\ncache/\n",
        },
        ("npm ci --offline --no-audit --cache cache/npm", "npm test"),
        ignored={"cache/dep.tgz": tarball("dep")},
    ),
    "pip": Build(
        ("python3", "pip3"),
        {".gitignore": "wheels/\nlib/\n"},
        (
            "python3 -m pip install -q --no-index --target lib one",
            "env PYTHONPATH=lib python3 -m one",
        ),
        config="agent_env: [PIP_FIND_LINKS]\n",
        env={"PIP_FIND_LINKS": "wheels"},
        ignored={"wheels/one-1.0-py3-none-any.whl": wheel()},
    ),
    "ruby": Build(("ruby", "rake"), {"Rakefile": RUBY}, ("rake test",)),
    "java": Build(
        ("javac",),
        {"A.java": JAVA, ".gitignore": "*.class\n"},
        ("javac A.java", "java A"),
        slow=True,
    ),
    "cargo": Build(
        ("cargo",),
        {
            "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": RUST,
            "Cargo.lock": 'version = 3\n[[package]]\nname = "a"\nversion = "0.1.0"\n',
            ".gitignore": "target/\n",
        },
        ("cargo test -q --offline",),
        slow=True,
    ),
    "go": Build(
        ("go",), {"go.mod": "module a\ngo 1.19\n", "a_test.go": GO_TEST}, ("go test",), slow=True
    ),
    "maven": Build(
        ("mvn",),
        {"pom.xml": POM, "src/test/java/ATest.java": JUNIT, ".gitignore": "target/\n"},
        (f"mvn -q -o {REPO} test",),
        slow=True,
    ),
    "gradle": Build(
        ("gradle",),
        {
            "build.gradle": GRADLE,
            "src/test/java/ATest.java": JUNIT,
            ".gitignore": "build/\n.gradle/\n",
        },
        ("gradle -q --offline --no-daemon test",),
        config="agent_env: [JAVA_OPTS]\n",
        env={"JAVA_OPTS": "--add-opens java.base/java.lang=ALL-UNNAMED"},
        slow=True,
    ),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter."""
    with open_folder() as opened:
        yield opened


def recorded(folder: Path) -> Path:
    """A night that makes a line of documentation, written by hand."""
    chosen = {**SELECTED, "files": ["README.md"], "description": "Say how the shop is built."}
    found = {**FOUND, "category_used": "docs", "candidates": [chosen], "selected": chosen}
    beads = {"analyze": found, "implement": None, "verify": PASSED, "mr": DRAFT}
    for bead, handoff in beads.items():
        own = folder / f"{bead}-docs-1"
        own.mkdir(parents=True)
        (own / "bead.json").write_text('{"exit_status": 0}')
        (own / "stdout.jsonl").write_text(json.dumps(RESULT) + "\n")
        if handoff:
            (own / "handoff.json").write_text(json.dumps(handoff))
    change = folder / "implement-docs-1" / "files"
    change.mkdir()
    (change / "README.md").write_text("# Shop\n\nHow to build it stands in the makefile.\n")
    (folder / "recording.json").write_text('{"version": 1, "agent": "claude_code"}')
    return folder


def skip_where_missing(build: Build) -> None:
    for name in build.needs:
        if shutil.which(name, path=SYSTEM_PATH) is None:
            pytest.skip(f"{name} is not installed")
    if build.slow and not os.environ.get("SLOW_TESTS"):
        pytest.skip("takes long: set SLOW_TESTS")


def use_public_python(shop: World) -> None:
    """The user of the agents has to be able to start it, too."""
    python = python_of_a_plain_user() if os.getuid() == 0 else None
    if python is None:
        pytest.skip("uid: needs root, and an interpreter that another user can start")
    shop.python = python
    shop.env["PYTHONPATH"] = f"{ROOT}:{LIBRARIES}"


def night(shop: World, recording: Path, tier: str, **env: str) -> str:
    """Run it; the job log. Skips where the machine does not have the tier."""
    for name in ("builds", "tmp"):
        (shop.folder / name).chmod(0o755)
    if tier == Tier.UID:
        use_public_python(shop)
    own = {"NIGHTSHIFT_AGENT": "replay", "NIGHTSHIFT_REPLAY_DIR": str(recording)}
    done = shop.nightshift(
        *("run", "--dry-run", "--category", "docs"),
        **own,
        **{"NIGHTSHIFT_ISOLATION": tier, "PATH": SYSTEM_PATH, **env},
    )
    log = done.log + done.stderr
    if f"isolation: {tier} does not work here" in log:
        pytest.skip(log.partition("does not work here: ")[2].partition("\n")[0])
    return log


def said(shop: World) -> str:
    """What the commands printed."""
    logs = sorted((shop.checkout / "nightshift" / "logs").glob("*-[0-9].*"))
    return "".join(f"{log.name}: {log.read_text()}" for log in logs)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", BUILDS)
def test_a_build(name: str, tier: str, folder: Path) -> None:
    build = BUILDS[name]
    skip_where_missing(build)
    recording = recorded(folder / "recording")
    config = f"{PLAIN}verify_commands: {json.dumps(build.commands)}\n{build.config}"
    with world(folder / "w", files={**README, **build.files}, config=config, commits=2) as shop:
        for path, data in build.ignored.items():
            (shop.checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (shop.checkout / path).write_bytes(data)
        shop.look()
        log = night(shop, recording, tier, **build.env)
        assert shop.result["outcome"] == "MR_READY", log + said(shop)
        assert shop.result["isolation"].startswith(f"{tier} ")
        passed = f"{len(build.commands)} of {len(build.commands)} commands passed"
        assert log.count(passed) == 2, "on the untouched checkout, and with the change"
        shop.assert_put_back()


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_tools_and_caches_of_the_home(tier: str, folder: Path) -> None:
    """Open by agent_paths: a tool is run, a cache is read and not written; the rest is closed."""
    files = {
        "check.sh": 'set -eu\ncat "$CACHE/jar"\n! touch "$CACHE/new"\n! cat "$CACHE/../token"\n'
    }
    config = (
        f"{PLAIN}verify_commands: [tool check.sh]\n"
        "agent_env: [CACHE]\nagent_paths: [$CACHE, ~/.tools/1.0]\n"
    )
    with world(folder / "w", files=files, config=config, commits=2) as shop:
        home = Path(shop.env["HOME"])
        (home / ".m2" / "repository").mkdir(parents=True)
        (home / ".m2" / "repository" / "jar").write_text("a jar\n")
        (home / ".m2" / "token").write_text("a secret\n")
        (home / ".tools" / "1.0" / "bin").mkdir(parents=True)
        (home / ".tools" / "current").symlink_to("1.0")
        shutil.copy("/bin/sh", home / ".tools" / "1.0" / "bin" / "tool")
        log = night(
            shop,
            recorded(folder / "recording"),
            tier,
            CACHE=str(home / ".m2" / "repository"),
            PATH=f"{home}/.tools/current/bin:{SYSTEM_PATH}",
        )
        assert shop.result["outcome"] == "MR_READY", log + said(shop)
        assert "a jar" in said(shop)
        assert "a secret" not in said(shop)
        assert not (home / ".m2" / "repository" / "new").exists()


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_program_that_is_not_there_is_a_failed_command(tier: str, folder: Path) -> None:
    config = f"{PLAIN}verify_commands: [no-such-program --all]\n"
    with world(folder / "w", files={"a": "a\n"}, config=config, commits=2) as shop:
        night(shop, recorded(folder / "recording"), tier)
        assert shop.result["outcome"] == "SKIPPED"
        assert "no-such-program is not on PATH" in shop.result["reason"]
