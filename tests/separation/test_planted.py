"""Code planted in the process that reads what agents write, in whole nights with real starts.

What it gets is compared with what is known to be open. That is a control as well: the code works
where nothing is in its way. Where nothing is open anywhere, other processes and a start
without the defence show that the attempt works.
"""

import contextlib
import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.tiers import WORK_READERS
from tests.nights_sandbox.test_plain_user import PLAIN, give_away, python_of_a_plain_user
from tests.sandbox import docker_like, tools
from tests.separation import attempts, planting
from tests.support import listeners
from tests.support.model_endpoint import ModelEndpoint
from tests.support.plant import find_place
from tests.support.programs import need_program
from tests.support.sandboxes import read_row, scripted, with_agent
from tests.support.shop import nothing
from tests.support.trees import places_of
from tests.support.turns import say
from tests.support.world import (
    BOT_TOKEN,
    JOB_TOKEN,
    MODEL_KEY,
    PROVING,
    ROOT,
    SECRETS,
    UNRELATED,
    World,
    git,
    world,
)

DOCKER = f"{sys.executable} {docker_like.__file__}"
PLACES = {
    "root": "",
    "user": "",
    "docker root": f"{DOCKER} --",
    "docker user": f"{DOCKER} --user {PLAIN} --",
}
NAME = f"nightshift-planted-{os.getpid()}"
TOLD = PROVING + "notify: [$TEAM_CHAT]\n"
SOCKET = "a socket in HOME"
UNLISTED = "reading private files that no list names"
WORKS = frozenset(
    ("a process that stays", "a server", "a datagram", "a user namespace", "System V memory")
)
"""What work may do, in namespaces of its own."""
UNSEEN = ("modes outside", "owners outside", "times outside", "attributes outside")
"""What Landlock does not see."""
IN_DOCKER = frozenset(
    (
        *WORKS - {"a user namespace"},
        *("a connection to GitLab", SOCKET),
        "priorities of our processes",
    )
)
"""What is open where nothing mounts: whoever may pass a folder may connect to a socket in it."""
LEFT = {
    "root": WORKS,
    "user": WORKS,
    # Agents are another user, to whom files are given, and who writes there.
    "docker root": IN_DOCKER | {"shared memory"},
    "docker user": IN_DOCKER | {"priorities of the job's shell"},
}
OF_ROWS = {
    "plan": {
        *("its own values", "a connection to GitLab", "a datagram", "a process that stays"),
        *(UNLISTED, "reading <project>.tmp", "reading .git/config"),
        *("writing .git/config", "writing the results", "reading the results"),
        *(*UNSEEN, "giving files away"),
    },
    "redactor": {"its own values", "writing the results", "reading the results"},
    "gateway": {"its own values", "a connection to GitLab", "a datagram", "a server"},
    "publish": {
        *("its own values", "a connection to GitLab", "a datagram", "a process that stays"),
        *("writing the results", "reading the results"),
    },
    "bundle reader": {"a process that stays"},
    "report": set[str](),
    "notify": {"a connection to GitLab", "a datagram"},
    "address check": set[str](),
}
"""What the row of a process gives it. What stays is ended with it."""

_HERE = {
    *("a process that stays", UNLISTED, "reading <project>.tmp"),
    *("reading .git/config", "reading the results", *UNSEEN, "giving files away"),
    *("its own values", "its own environ"),
}
_THERE = {"a connection to GitLab", "a datagram"}
COMMANDS = {
    "plan": _HERE | _THERE | {"writing .git/config", "writing the results"},
    "publish": _HERE | _THERE | {"writing .git/config", "writing the results"},
    "check": _HERE,
    "patch": {
        *("a process that stays", "reading .git/config", "reading the results"),
        *("its own values", "its own environ"),
    },
}
"""What the row of a command gives it that is one process."""

ARGUMENTS = {"patch": ("--task", "x", "--model", "m", "--set", "max_tokens=100000")}

HELD_BY = {
    "root": "partial: change the kernel's settings: namespaces: ",  # not guaranteed
    "user": "held: namespaces",
    "docker root": "held: landlock",
    "docker user": "held: landlock",
}
"""What the night's own proof says of its work."""

MEANWHILE = {"redactor": {"reading .git/config", "writing .git/config"}}
"""What may not be in its place when a process tries it that nobody waits for."""
ALL, AS_ROOT = frozenset(PLACES), frozenset({"root"})
ROOTS, FULL = frozenset({"root", "docker root"}), frozenset({"root", "user"})
CONTROLS = {
    *("a connection to GitLab", "a server", "a datagram", "a process that stays", *UNSEEN),
    *("System V memory", "an io_uring", "shared memory", "a user namespace"),
    *("environ of the job's shell", "memory of the job's shell", "tracing of the job's shell"),
    *("signals of our processes", "priorities of our processes", "an abstract socket", SOCKET),
    *("reading <project>.tmp", "reading .git/config", "reading HOME", "reading the results"),
    *("writing .git/config", "writing HOME", "writing programs", "writing the installation"),
    *("writing the results", "writing beside the checkout", "writing the shell's start files"),
}
"""What each process of root's gets that has given nothing up."""
OPEN = {
    # Whoever has all capabilities looks into every process, whatever that has closed.
    **dict.fromkeys(
        (
            "memory of our processes",
            "memory by a call of our processes",
            "descriptors of our processes",
            "a descriptor of our processes",
            "tracing of our processes",
            "memory of its ancestors",
            "memory by a call of its ancestors",
            "a descriptor of its ancestors",
            "tracing of its ancestors",
        ),
        AS_ROOT,
    ),
    "priorities of our processes": ALL,
    "priorities of the job's shell": ALL,
    "priorities of its ancestors": AS_ROOT,
    **dict.fromkeys(UNSEEN, ALL),
    **dict.fromkeys(WORKS - {"a user namespace"}, ALL),
    "giving files away": ROOTS,
    "a user namespace": FULL,
    "an io_uring": FULL,
    "shared memory": ALL,
    UNLISTED: ALL,
    "a connection to GitLab": ALL,
    "signals of our processes": ALL,
    "signals of its ancestors": ROOTS,
    "environ of the job's shell": ALL,
    "memory of the job's shell": ALL,
    "memory by a call of the job's shell": ALL,
    "a descriptor of the job's shell": FULL,  # Docker's profile knows no such call
    "signals of the job's shell": ALL,
    "tracing of the job's shell": ALL,
    "reading <project>.tmp": ALL,
    "reading .git/config": ALL,
    "reading HOME": ALL,
    "writing <project>.tmp": ALL,
    "writing .git/config": ALL,
    "writing HOME": ALL,
    "writing the shell's start files": ALL,
    "writing programs": ROOTS,
    "writing the installation": ROOTS,
    "writing beside the checkout": ALL,
    "writing the results": ALL,
    "reading the results": ALL,
    "an abstract socket": ALL,
    "a socket in HOME": ALL,
}
"""What planted code gets in which places where nothing confines work (``isolation: none``). What is
not named is closed everywhere."""
SILENT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "structured_output": nothing()[0][1],
}
QUIET = (f"#!/bin/sh\necho {shlex.quote(json.dumps(SILENT))}\n", "NO_IMPROVEMENT")
WORKING = (scripted("echo '# x' >> test_shop.py"), "MR_CREATED")


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """One that a plain user can start. The tables are those of a machine with bubblewrap."""
    need_program("bwrap")
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    with tools.open_folder() as folder:
        yield python_of_a_plain_user(folder) or pytest.skip("no interpreter for a plain user")


@contextlib.contextmanager
def listening(address: str) -> Iterator[None]:
    """A service of the job's shell, as an agent of ssh is one."""
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(address)
        unix.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = unix.accept()
                    with connection:
                        connection.sendall(b"a word of-the-socket")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            unix.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextlib.contextmanager
def planted(
    place: str,
    python: Path,
    *,
    open_: bool = False,
    only: Collection[str] = planting.WHERE,
    **switches: bool,
) -> Iterator[tuple[World, Path]]:
    """A night to come in a place, with the code in it and all that it may look for."""
    name = f"{NAME}-{secrets.token_hex(8)}"
    with tools.open_folder() as folder, world(folder / "world", config=TOLD) as shop:
        shop.folder.chmod(0o755)
        home = Path(shop.env["HOME"])
        (home / ".netrc").write_text("machine gitlab password a-password-at-home\n")
        (home / "diary").write_text("a-password-at-home, which no list names\n")
        (home / ".bashrc").touch()
        git(shop.checkout, "config", "http.extraHeader", "X: in-the-real-configuration")
        installation = str(ROOT / "gitlab_nightshift")
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
        port = int(shop.gitlab.url.rpartition(":")[2])
        known = (str(shop.checkout), str(home), "", installation, name, namespace)
        places = attempts.Places(*known, shop.env["TMPDIR"], port=port)
        own, plant = python if "user" in place else Path(sys.executable), folder / "plant"
        plant.mkdir()
        shop.python = planting.prepare(
            *(plant, own, places), place=PLACES[place], open_=open_, only=only, switches=switches
        )
        if "user" in place:
            give_away(shop, own, "builds", "home", "tmp", "agent")
        shop.user = PLAIN if place == "user" else None
        shop.look()
        try:
            with (
                listening(f"\0{name}"),
                listening(str(home / "agent")),
                listeners.listening() as chat,
            ):
                (home / "agent").chmod(0o777)
                shop.env["TEAM_CHAT"] = f"json://127.0.0.1:{chat.port}/"
                yield shop, plant
        finally:
            Path("/dev/shm", name).unlink(missing_ok=True)


def run(shop: World, isolation: str, agent: str, outcome: str) -> dict[str, str]:
    """A night, and what the code in work has got, which the redactor has seen."""
    path = with_agent(shop, "scripted", agent)
    done = shop.nightshift("run", "--category", "tests", NIGHTSHIFT_ISOLATION=isolation, PATH=path)
    assert (done.exit_status, done.stderr) == (0, ""), done.log
    assert shop.result["outcome"] == outcome, done.log
    assert places_of(SECRETS, shop.products()) == []
    shop.assert_restored()
    assert not Path(shop.env["HOME"], "recovered").exists()
    return read_log(shop, planting.LOG)


def read_log(shop: World, name: str) -> dict[str, str]:
    """What the code in work, or in the notary, has got, as it sent it."""
    return _keep_real(json.loads(shop.products()[f"logs/{name}"]))


def _keep_real(found: dict[str, str]) -> dict[str, str]:
    assert found.keys() >= OPEN.keys(), "all of it was tried"
    return {name: text for name, told in found.items() if (text := planting.really(told))}


def got(plant: Path, process: str) -> dict[str, str]:
    """What the code in one of the others has got."""
    return _keep_real(planting.read_found(plant, process))


def held(plant: Path, process: str) -> str:
    """What the same code gets where secrets are held."""
    return " ".join(planting.read_found(plant, process).values())


def test_every_function_that_code_is_planted_at_exists() -> None:
    for _, place, _ in planting.WHERE.values():
        find_place(place)


@pytest.mark.parametrize("place", PLACES)
def test_planted_code_gets_what_is_known_to_be_open(place: str, python: Path) -> None:
    """The attempts work where nothing is in their way, and only there."""
    with planted(place, python) as (shop, plant):
        found = run(shop, "none", *WORKING)
        is_open = {name for name, places in OPEN.items() if place in places}
        for each in (found, read_log(shop, planting.NOTARY_LOG)):
            assert {name: text for name, text in each.items() if name not in is_open} == {}, "holes"
            assert is_open - each.keys() == set(), "closed now: the table is out of date"

        assert BOT_TOKEN in held(plant, "plan")
        assert MODEL_KEY in held(plant, "gateway")
        assert MODEL_KEY not in held(plant, "plan")
        others = (BOT_TOKEN, JOB_TOKEN, UNRELATED)
        assert not any(secret in held(plant, "gateway") for secret in others)


@pytest.mark.parametrize("place", PLACES)
def test_planted_code_gets_nothing_beyond_the_row_of_its_process(place: str, python: Path) -> None:
    with planted(place, python) as (shop, plant):
        found, left = run(shop, "auto", *WORKING), LEFT[place]
        for each in (found, read_log(shop, planting.NOTARY_LOG)):
            assert {name: text for name, text in each.items() if name not in left} == {}, "holes"
            assert left - each.keys() == set(), "closed now: the table is out of date"
        # Where agents are another user, they need it, and this machine has other processes of root.
        assert place == "docker root" or not list(Path("/dev/shm").glob(f"{NAME}-*"))
        row = read_row(shop, WORK_READERS)
        for process, allowed in OF_ROWS.items():
            found = got(plant, process)
            found.pop("its own memory", None)  # which holds what its values are
            assert {name: text for name, text in found.items() if name not in allowed} == {}
        assert planting.count_alive(plant) == 0, "a process has stayed"
    assert row["attempts"] > 10
    assert f"{row['state']}: {row['how']}".startswith(HELD_BY[place])


@pytest.mark.parametrize("unlatched", [False, True])
def test_work_is_not_started_again_once_an_agent_has_run(python: Path, *, unlatched: bool) -> None:
    """Not even where no gateway has heard of the agent, which asks its model itself; if that were
    heard (the control), work would get the network, and a start before it is confined."""
    with planted("root", python, unfit=True, unlatched=unlatched) as (shop, _):
        path = with_agent(shop, "scripted", WORKING[0])
        done = shop.nightshift("run", "--category", "tests", NIGHTSHIFT_ISOLATION="auto", PATH=path)
        assert ("weaker, please" in done.log) is unlatched, done.log
        assert shop.result["error_code"] == "E_INTERNAL"  # the second one asks again
        shop.assert_restored()


def test_what_hides_nothing_is_read_by_any_user(python: Path) -> None:
    """The control for what is closed to the same user: there it gets all of it."""
    with planted("user", python, open_=True, only=("work",)) as (shop, _):
        found = run(shop, "none", *QUIET)
        ways = ("memory", "memory by a call", "descriptors", "a descriptor", "tracing")
        assert {f"{way} of our processes" for way in ways} <= found.keys()


def test_root_gives_up_owners_where_the_checkout_is_its_own(python: Path) -> None:
    """In the tier that has no other user."""
    with planted("docker root", python) as (shop, _):
        assert "giving files away" not in run(shop, "landlock", *WORKING)


def test_who_looks_for_addresses_reads_files_and_nothing_else(python: Path) -> None:
    """It runs where settings are wrong, and before any agent."""
    with planted("root", python) as (shop, plant):
        assert shop.nightshift("run", NIGHTSHIFT_MAX_DIFF_LINES="many").exit_status == 2
        assert got(plant, "addresses").keys() <= {
            *("a process that stays", "reading <project>.tmp", UNLISTED),
            *("reading .git/config", "reading the results"),
        }
        assert planting.count_alive(plant) == 0, "a process has stayed"


def test_the_same_code_gets_all_of_it_where_nothing_is_given_up(python: Path) -> None:
    """The control for the rows: each attempt works in the same processes."""
    with planted("root", python, open_=True) as (shop, plant):
        run(shop, "auto", *WORKING)
        for process in OF_ROWS:
            missing = CONTROLS - got(plant, process).keys() - MEANWHILE.get(process, set())
            assert missing == set(), process


def run_command(place: str, python: Path, command: str, *, open_: bool) -> set[str]:
    """What the code gets in a command, however that ends."""
    name = f"nightshift {command}"
    with (
        planted(place, python, open_=open_, only=(name,)) as (shop, plant),
        ModelEndpoint([say("nothing")] * 2) as endpoint,
    ):
        env = {"OPENAI_API_KEY": MODEL_KEY, "NIGHTSHIFT_MODEL_ENDPOINT": endpoint.url}
        shop.nightshift(command, *ARGUMENTS.get(command, ()), **env)
        assert planting.count_alive(plant) == 0, "a process has stayed"
        return got(plant, name).keys() - {"its own memory", "its own descriptors"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_nor_does_a_command_that_is_one_process(command: str, place: str, python: Path) -> None:
    assert run_command(place, python, command, open_=False) - COMMANDS[command] == set()
    expected = {name for name in CONTROLS if place in OPEN.get(name, ALL)}
    missing = expected - run_command(place, python, command, open_=True)
    assert missing <= {"reading the results", "writing the results"}, "the control"


OWN = """
import json, os, sys

sys.path.insert(0, {root!r})
from tests.separation import attempts

token = os.environ["GITLAB_TOKEN"]
memory = os.memfd_create("held")
os.write(memory, {word!r})
print(json.dumps(attempts.own()))
"""


def test_what_a_process_holds_itself_is_found() -> None:
    """In a small one: all memory is read."""
    code = OWN.format(root=str(ROOT), word=UNRELATED.encode())
    command = [sys.executable, "-I", "-c", code]
    said = subprocess.check_output(command, env={"GITLAB_TOKEN": BOT_TOKEN})
    found = json.loads(said)
    assert BOT_TOKEN in found["its own environ"]
    assert UNRELATED in found["its own descriptors"]
    assert BOT_TOKEN in found["its own memory"]
    assert BOT_TOKEN in found["its own values"]
