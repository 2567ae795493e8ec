"""UDP: build tools may make sockets, but no datagram leaves the sandbox."""

import socket
import subprocess
from collections.abc import Iterator

import pytest

from gitlab_nightshift.sandbox.tiers import Tier
from tests.sandbox.tools import PYTHON, Room

SENDING = """
import array, ctypes, os, socket, struct, sys
to = ('127.0.0.1', int(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
def udp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_DGRAM)
def connected():
    s = udp(); s.connect(to); s.send(b'x')
def disconnected():
    s = udp(); libc.connect(s.fileno(), bytes(16), 16); s.sendmsg([b'x'], [], 0, to)
def bound():
    s = udp(); s.bind(('127.0.0.1', 0)); s.sendmsg([b'x'], [], 0, to)
def written():
    s = udp(); s.connect_ex(to); os.write(s.fileno(), b'x')
def spliced():
    s = udp(); s.connect_ex(to); a, b = os.pipe(); os.write(b, b'x')
    os.splice(a, s.fileno(), 1) if hasattr(os, 'splice') else os.sendfile(s.fileno(), a, 0, 1)
def corked():
    s = udp(); s.sendmsg([b'x'], [], socket.MSG_MORE, to); s.sendmsg([b'x'], [], 0, to)
def passed():
    a, b = socket.socketpair(); s = udp()
    a.sendmsg([b'x'], [(1, 1, array.array('i', [s.fileno()]))])
    fd = struct.unpack('i', b.recvmsg(1, 64)[1][0][2])[0]
    socket.socket(fileno=fd).sendmsg([b'x'], [], 0, to)
def mapped():
    udp(socket.AF_INET6).sendmsg([b'x'], [], 0, ('::ffff:127.0.0.1', to[1]))
ways = {
    'sendto': lambda: udp().sendto(b'x', to),
    'sendmsg': lambda: udp().sendmsg([b'x'], [], 0, to),
    'empty': lambda: udp().sendmsg([b''], [], 0, to),
    'large': lambda: udp().sendmsg([b'x' * 60000], [], 0, to),
    'zerocopy': lambda: udp().sendmsg([b'x'], [], 0x4000000, to),
    'connected': connected, 'disconnected': disconnected, 'bound': bound, 'written': written,
    'spliced': spliced, 'corked': corked, 'passed': passed, 'mapped': mapped,
}
sent = []
for name, way in ways.items():
    try:
        way()
    except OSError:
        continue
    sent.append(name)
print(' '.join(sent))
"""
ALL = "sendto sendmsg empty large zerocopy connected bound written corked passed mapped"
GRADLE = """
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
print(fcntl.ioctl(s, 0x8913, struct.pack('16sH14x', b'lo', 0))[16] & 9)
s.bind(('', 0))
print(s.getsockname()[1] > 0)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(41, 26, 0); six.setsockopt(41, 49, 0); six.setsockopt(41, 18, 1)
six.bind(('::', 0))
"""
ECHO = """
import socket
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); a.settimeout(5)
b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.sendto(b'hi', a.getsockname())
print(a.recv(9))
"""


@pytest.fixture
def service() -> Iterator[socket.socket]:
    """A service of another program, on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


def has_received(service: socket.socket) -> bool:
    try:
        service.recv(9)
    except BlockingIOError:
        return False
    return True


def test_without_a_sandbox_a_datagram_arrives(service: socket.socket) -> None:
    port = str(service.getsockname()[1])
    done = subprocess.run([PYTHON, "-c", SENDING, port], capture_output=True, text=True, check=True)
    assert set(ALL.split()) <= set(done.stdout.split())
    assert has_received(service)


def test_no_datagram_reaches_another_program(any_room: Room, service: socket.socket) -> None:
    done = any_room.run(PYTHON, "-c", SENDING, str(service.getsockname()[1]))
    assert (done.exit_status, done.stderr) == (0, "")
    if any_room.sandbox.tier is not Tier.NAMESPACES:  # where it is sent, but reaches nobody
        assert done.stdout.strip() == ""
    assert not has_received(service)
    assert done.report.refused == ()


def test_build_tools_can_bind_and_list_interfaces(any_room: Room) -> None:
    """Gradle does, for messages about locks."""
    done = any_room.python(GRADLE)
    assert (done.stdout, done.stderr) == ("9\nTrue\n", "")


def test_a_port_is_not_shared_with_another_program(monitored_room: Room) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as theirs:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            theirs.setsockopt(socket.SOL_SOCKET, option, 1)
        theirs.bind(("127.0.0.1", 0))
        port = theirs.getsockname()[1]
        source = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1)\n"
        )
        bind = f"{source}s.bind(('127.0.0.1', {port})); print('shared')"
        free = subprocess.run([PYTHON, "-c", bind], capture_output=True, text=True, check=False)
        assert free.stdout == "shared\n", "the control"
        assert "Address already in use" in monitored_room.python(bind).stderr


def test_in_namespaces_a_tree_can_send_to_itself(any_room: Room) -> None:
    if any_room.sandbox.tier is not Tier.NAMESPACES:
        pytest.skip("only in namespaces")
    assert any_room.python(ECHO).stdout == "b'hi'\n"


def test_a_failed_name_lookup_does_not_wait(any_room: Room) -> None:
    source = (
        "import socket\n"
        "try: socket.getaddrinfo('example.org', 80)\n"
        "except socket.gaierror: print('unknown')"
    )
    options = "timeout:30 attempts:5"  # a lost query would take longer than Room.run waits
    assert any_room.python(source, RES_OPTIONS=options).stdout == "unknown\n"
