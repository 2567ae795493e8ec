"""The forwarder of an agent's requests to the gateway is killed in the middle of one: the attempt
fails, and the night goes on with another."""

import os
import shlex
import signal
from pathlib import Path

from tests.sandbox import tools
from tests.sandbox.test_kills import descendants
from tests.support.sandboxes import scripted, tier_or_skip, with_agent
from tests.support.trees import processes_in
from tests.support.world import PLAIN, ended, wait_in, world

ASKING = """
import os, socket, sys
from urllib.parse import urlsplit
gateway = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
while True:
    try:
        with socket.create_connection((gateway.hostname, gateway.port)) as way:
            way.sendall(b"POST /v1/messages HTTP/1.1\\r\\nContent-Length: 100\\r\\n\\r\\n")
            open("asking", "w").close()
            way.recv(1)
    except OSError as error:
        sys.exit(f"API Error: {error.strerror}")
"""
"""Half a request, again and again, for as long as there is somebody to ask."""
IMPLEMENT = (
    f"case $HOME in *-1/home) exec {tools.PYTHON} -c {shlex.quote(ASKING)} ;; esac;"
    " echo '# x' >> test_shop.py"
)


def forwarders(night: int) -> list[int]:
    """The forwarders below a night: only they still have the launcher's command line."""
    lines = {pid: Path(f"/proc/{pid}/cmdline") for pid in descendants({night})}
    words = {pid: line.read_bytes().split(b"\0") for pid, line in lines.items() if line.exists()}
    return [pid for pid, word in words.items() if word[3:4] and word[3].endswith(b"/launcher.py")]


def test_the_forwarder_is_killed() -> None:
    tier = tier_or_skip("namespaces")
    with tools.open_folder() as folder, world(Path(folder), config=PLAIN) as shop:
        path = with_agent(shop, "scripted", scripted(IMPLEMENT))
        night = shop.start("run", NIGHTSHIFT_ISOLATION=tier, PATH=path)
        asking = shop.checkout / "asking"
        wait_in(night, asking.exists, "the agent to ask")
        [forwarder] = forwarders(night.pid)
        os.kill(forwarder, signal.SIGKILL)
        done = ended(night)
        assert (done.exit_status, shop.result["outcome"]) == (0, "MR_CREATED"), done.log
        failed = shop.result["beads"][1]
        assert (failed["bead"], failed["attempt"], failed["status"]) == ("implement", 1, "crashed")
        assert "API Error: Connection re" in failed["error"]
        assert processes_in(folder) == []
        shop.assert_restored()
