"""Real builds in every tier: ``verify_commands`` of a night, offline, caches filled before.

A tool that is not installed is reported by a skipped test. Builds that take longer than a few
seconds (Java, Maven, Gradle, Go, Cargo) run where SLOW_TESTS is set.
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
from itertools import chain
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.tools import SYSTEM_PATH, open_folder
from tests.support.sandboxes import with_agent
from tests.support.world import IMPLIED, Files, World, world

TIERS = tuple(str(tier) for tier in Tier if tier is not Tier.NONE)


@dataclass(frozen=True)
class Build:
    """A small project: its files, what was there before the night, what has to pass.

    ``env`` is the job's and the agents', ``ignored`` lies untracked in the checkout. All are built
    in one folder.
    """

    needs: tuple[str, ...]
    files: Files
    commands: tuple[str, ...]
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
    test('a dependency', () => assert.equal(require('dep'), 42));
    test('a server', (t, done) => {
      const server = http.createServer((q, r) => r.end()).listen(0, () =>
        http.get({port: server.address().port}, (r) => { server.close(); done(); }));
    });
    """
)
PACKAGE = {
    "name": "shop",
    "version": "1.0.0",
    "scripts": {"test": "node --test"},
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
FILES = {
    "README.md": "# Shop\n",
    "check.sh": 'set -eu\ncat "$CACHE/jar"\n! touch "$CACHE/new"\n! cat "$CACHE/../token"\n',
}
REPO = "-Dmaven.repo.local=/usr/share/maven-repo"

BUILDS = {
    "make and a C compiler": Build(
        ("make", "gcc"),
        {
            "c/Makefile": "test: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n",
            "c/hello.c": "int main(void) { return 0; }\n",
            ".gitignore": "c/hello\n",
        },
        ("make -C c test",),
    ),
    "npm": Build(
        ("node", "npm"),
        {
            "a.test.js": NODE_TEST,
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
        env={"JAVA_OPTS": "--add-opens java.base/java.lang=ALL-UNNAMED"},
        slow=True,
    ),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter."""
    with open_folder() as opened:
        yield opened


def missing(build: Build) -> list[str]:
    return [name for name in build.needs if shutil.which(name, path=SYSTEM_PATH) is None]


def all_in_one() -> Build:
    """The builds that can be made here, as one project."""
    slow = bool(os.environ.get("SLOW_TESTS"))
    builds = [each for each in BUILDS.values() if slow >= each.slow and not missing(each)]
    ignore = "".join(str(each.files.get(".gitignore", "")) for each in builds)
    return Build(
        needs=(),
        files={**dict(chain(*(each.files.items() for each in builds))), ".gitignore": ignore},
        commands=tuple(chain(*(each.commands for each in builds))),
        env=dict(chain(*(each.env.items() for each in builds))),
        ignored=dict(chain(*(each.ignored.items() for each in builds))),
    )


def baseline(shop: World, tier: str, **env: str) -> str:
    """Run the commands on the untouched checkout; the job log. One of them fails, so that this is
    all of the night. Skips where the machine does not have the tier."""
    for name in ("builds", "tmp"):
        (shop.folder / name).chmod(0o755)
    idle = with_agent(shop, "idle", "#!/bin/sh\n").partition(":")[0]
    env["PATH"] += f":{idle}"
    done = shop.nightshift("run", NIGHTSHIFT_ISOLATION=tier, **env)
    log = done.log + done.stderr
    if f"isolation: {tier} does not work here" in log:
        pytest.skip(log.partition("does not work here: ")[2].partition("\n")[0])
    return log


def said(shop: World) -> str:
    """What the commands printed."""
    logs = sorted((shop.checkout / "nightshift" / "logs").glob("*-[0-9].*"))
    return "".join(f"{log.name}: {log.read_text()}" for log in logs)


def test_tools_that_are_missing_are_told() -> None:
    told = {name: missing(build) for name, build in BUILDS.items() if missing(build)}
    if told:
        pytest.skip(f"builds that are left out, and what is not installed: {told}")


@pytest.mark.parametrize("tier", TIERS)
def test_builds(tier: str, folder: Path) -> None:
    """Except for another user, also with the home's tools and caches that agent_paths names: a tool
    is run, a cache is read and not written; the rest is hidden."""
    build = all_in_one()
    home = folder / "w" / "home"
    cache = home / ".m2" / "repository"
    own = "" if tier == Tier.UID else "agent_paths: [$CACHE, ~/.tools/1.0]\n"
    commands = [*build.commands, *(["tool check.sh"] if own else []), "false"]
    config = (
        f"{IMPLIED}verify_commands: {json.dumps(commands)}\n"
        f"agent_env: {json.dumps(['CACHE', *build.env])}\n{own}"
    )
    with world(folder / "w", files={**FILES, **build.files}, config=config, commits=2) as shop:
        for path, data in build.ignored.items():
            (shop.checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (shop.checkout / path).write_bytes(data)
        furnish(home)
        shop.look()
        env = {**build.env, "CACHE": str(cache), "PATH": f"{home}/.tools/current/bin:{SYSTEM_PATH}"}
        log = baseline(shop, tier, **env)
        wrong = [command for command in commands[:-1] if f"✔ {command} ·" not in log]
        assert wrong == [], log + said(shop)
        assert shop.result["outcome"] == "SKIPPED"
        assert "`false` failed: exit status 1" in shop.result["reason"]
        assert shop.result["isolation"].startswith(f"{tier} ")
        assert ("a jar" in said(shop)) == bool(own)
        assert "a secret" not in said(shop)
        assert not (cache / "new").exists()
        shop.assert_restored()


def furnish(home: Path) -> None:
    """A cache, a secret beside it, and a tool."""
    (home / ".m2" / "repository").mkdir(parents=True)
    (home / ".m2" / "repository" / "jar").write_text("a jar\n")
    (home / ".m2" / "token").write_text("a secret\n")
    (home / ".tools" / "1.0" / "bin").mkdir(parents=True)
    (home / ".tools" / "current").symlink_to("1.0")
    shutil.copy("/bin/sh", home / ".tools" / "1.0" / "bin" / "tool")
