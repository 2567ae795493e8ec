"""Programs for real work in every tier: the agent's CLI, builds, servers on loopback, git."""

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.tools import Room, relay
from tests.support import kept
from tests.support.model_endpoint import ModelEndpoint
from tests.support.turns import answer, bash, write

NODE_MODULES = Path(__file__).resolve().parents[1] / "node/node_modules"
SCHEMA = {"type": "object", "properties": {"passed": {"type": "boolean"}}, "required": ["passed"]}

HTTP = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:%d/" % server.server_address[1]).status)
"""
ASYNC = """
import asyncio
async def main():
    async def hello(reader, writer): writer.write(b'hi'); await writer.drain(); writer.close()
    server = await asyncio.start_server(hello, 'localhost', 0)
    reader, _ = await asyncio.open_connection('localhost', server.sockets[0].getsockname()[1])
    process = await asyncio.create_subprocess_exec('true')
    print(await reader.read(), await process.wait())
asyncio.run(main())
"""
NODE = """
const http = require('http'), child = require('child_process'), net = require('net');
const server = http.createServer((q, r) => r.end('ok')).listen(0, () =>
  http.get('http://localhost:' + server.address().port, (r) => r.on('data', (d) => {
    server.close();
    const pipe = net.createServer((c) => c.end('pipe')).listen('n.sock', () =>
      net.connect('n.sock').on('data', (x) => {
        console.log(d + ' ' + child.execSync('echo child') + x);
        pipe.close();
      }));
  })));
"""


def need_program(*names: str) -> None:
    for name in names:
        if shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") is None:
            pytest.skip(f"{name} is not installed")


def test_the_real_claude_runs_a_whole_bead(landlock_room: Room) -> None:
    """Nothing is refused to it. ``nights_agents`` has whole nights in the other tiers."""
    claude = (NODE_MODULES / ".bin/claude").resolve()
    if not claude.exists():
        pytest.skip("npm ci has not been run in tests/node")
    landlock_room.write("hello.txt", "hi\n")
    handoff = landlock_room.scratch / "handoff.json"
    turns = [bash("cat hello.txt"), write(handoff, "{}"), answer({"passed": True})]
    with (
        ModelEndpoint(turns) as endpoint,
        relay(urlsplit(endpoint.url).port or 0, landlock_room.root / "socket") as service,
    ):
        done = landlock_room.using(NODE_MODULES, services=[service]).run(
            *(str(claude), "-p", "--output-format", "json", "--model", "claude-sonnet-4-6"),
            *("--tools", "Bash,Read,Write", "--permission-mode", "dontAsk"),
            *("--allowedTools", "Bash(cat *)", f"Edit(/{handoff})", "--json-schema"),
            *(json.dumps(SCHEMA), "--setting-sources", "user", "--strict-mcp-config"),
            env=landlock_room.env(
                ANTHROPIC_BASE_URL=endpoint.url,
                ANTHROPIC_API_KEY="placeholder",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_AUTOUPDATER="1",
            ),
            stdin="Verify it.",
        )
        results = endpoint.messages[-1].tool_results
    assert (done.exit_status, done.stderr) == (0, "")
    assert json.loads(done.stdout)["structured_output"] == {"passed": True}
    assert results[0].splitlines()[0] == "hi"  # the CLI adds words of its own
    assert handoff.read_text() == "{}"
    assert done.report.refused == ()


def test_a_make_build(any_room: Room) -> None:
    need_program("make", "cc")
    any_room.write("Makefile", "hello: hello.c\n\t$(CC) -o $@ $<\n")
    any_room.write("hello.c", '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    done = any_room.shell("make -s && ./hello")
    assert (done.stdout, done.exit_status) == ("built\n", 0)


def test_git_works(any_room: Room) -> None:
    need_program("git")
    line = (
        "git init -q . && git config user.name a && git config user.email a@b && echo 1 > f"
        " && git add f && git commit -qm first && git gc -q && git clone -q . $TMPDIR/clone"
        " && git -C $TMPDIR/clone log --format=%s && git status --porcelain"
    )
    done = any_room.shell(line)
    assert (done.stdout, done.stderr, done.exit_status) == ("first\n", "", 0)


def test_python_servers_and_clients(any_room: Room) -> None:
    assert any_room.python(HTTP).stdout == "200\n"
    assert any_room.python(ASYNC).stdout == "b'hi' 0\n"


def test_node_servers_clients_and_children(any_room: Room) -> None:
    need_program("node")
    done = any_room.run("node", "-e", NODE)
    assert (done.stdout, done.exit_status) == ("ok child\npipe\n", 0)


def test_npm_installs_a_folder_and_runs_a_script(any_room: Room) -> None:
    need_program("npm")
    package = {"name": "p", "version": "1.0.0", "dependencies": {"dep": "file:dep"}}
    scripts = {"postinstall": "node -e 'console.log(42)'"}
    any_room.write("package.json", json.dumps({**package, "scripts": scripts}))
    any_room.write("dep/package.json", json.dumps({"name": "dep", "version": "1.0.0"}))
    done = any_room.shell("npm install --offline --no-audit -s && ls node_modules")
    assert (done.stdout, done.exit_status) == ("42\ndep\n", 0)


def test_pip_installs_a_folder(any_room: Room) -> None:
    """From a wheel in a local folder."""
    import zipfile

    wheel = any_room.write("w/one-1.0-py3-none-any.whl", "")
    with zipfile.ZipFile(wheel, "w") as archive:
        info = "one-1.0.dist-info"
        archive.writestr("one.py", "print('one')\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    line = (
        "python3 -c 'import pip' || exit 77; python3 -m pip install -q --no-index --no-compile"
        " --disable-pip-version-check --target lib w/*.whl && PYTHONPATH=lib python3 -m one"
    )
    done = any_room.shell(line)
    if done.exit_status == 77:
        pytest.skip("no pip in the system's Python")
    assert (done.stdout, done.exit_status) == ("one\n", 0), done.stderr


def test_java_runs_and_talks_to_itself(any_room: Room) -> None:
    need_program("java", "javac")
    with _compiled().open("rb") as compiled, (any_room.checkout / "A.class").open("wb") as file:
        shutil.copyfileobj(compiled, file)
    small = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    done = any_room.run("java", *small, "-cp", ".", "A")
    assert (done.stdout, done.exit_status) == ("200\n", 0), done.stderr


JAVA = """
import com.sun.net.httpserver.HttpServer; import java.net.*; import java.net.http.*;
public class A { public static void main(String[] a) throws Exception {
  var s = HttpServer.create(new InetSocketAddress("localhost", 0), 0);
  s.createContext("/", e -> { e.sendResponseHeaders(200, -1); e.close(); }); s.start();
  var q = HttpRequest.newBuilder(URI.create("http://localhost:" + s.getAddress().getPort()));
  var answer = HttpClient.newHttpClient().send(q.build(), HttpResponse.BodyHandlers.ofString());
  System.out.println(answer.statusCode());
  System.exit(0); } }"""


@cache
def _compiled() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="java-", dir=kept.folder))
    (folder / "A.java").write_text(JAVA)
    argv = ["javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "A.java"]
    subprocess.run(argv, cwd=folder, check=True)
    return folder / "A.class"


def test_shared_memory_works_where_it_is_private(any_room: Room) -> None:
    """Python's locks between processes need it. With Landlock it would be the whole job's."""
    source = """
import concurrent.futures, multiprocessing
with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('fork')) as pool:
    print(pool.submit(abs, -42).result())
"""
    done = any_room.python(source)
    if any_room.sandbox.tier is Tier.LANDLOCK:
        assert "PermissionError" in done.stderr
    else:
        assert (done.stdout, done.stderr) == ("42\n", "")
