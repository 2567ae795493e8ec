"""What a tree may connect to where a monitor makes its sockets."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.sandbox.inside import sockets
from gitlab_nightshift.sandbox.inside.sockets import _ask_kernel, _read_proc
from gitlab_nightshift.sandbox.inside.syscalls import NUMBERS
from gitlab_nightshift.sandbox.launch import prepare_launch
from gitlab_nightshift.sandbox.probe_run import open_greeter, open_tcp_listener, open_unix_listener
from gitlab_nightshift.sandbox.tiers import ServicePort
from tests.sandbox.tools import PYTHON, Room, end

HELLO = "import socket,sys,os,errno,select,threading,time\n"
SERVER = """
def serve(family=socket.AF_INET, host='127.0.0.1', port=0):
    s = socket.socket(family); s.setsockopt(1, 2, 1); s.bind((host, port)); s.listen()
    def run():
        while True:
            c, _ = s.accept(); c.sendall(c.recv(9) * 2); c.close()
    threading.Thread(target=run, daemon=True).start()
    return s.getsockname()[1]
def ask(host, port):
    c = socket.create_connection((host, port), timeout=60); c.sendall(b'hi'); return c.recv(9)
"""


@pytest.fixture
def outsider() -> Iterator[int]:
    """A service of another program on loopback."""
    with open_tcp_listener() as listener, open_greeter(listener):
        yield listener.getsockname()[1]


def test_own_servers_can_be_reached(any_room: Room) -> None:
    """By every name of loopback; a wildcard is bound to loopback too."""
    source = """
for bound, asked in (('127.0.0.1', '127.0.0.1'), ('', '127.0.0.1'), ('localhost', 'localhost')):
    print(ask(asked, serve(host=bound)))
print(ask('::1', serve(socket.AF_INET6, '::1')), ask('127.0.0.1', serve(socket.AF_INET6, '::')))
print(ask('0.0.0.0', serve()))
"""
    done = any_room.python(HELLO + SERVER + source)
    assert (done.stdout.count("b'hihi'"), done.stderr) == (6, "")


def test_outsiders_cannot_be_reached(any_room: Room, outsider: int) -> None:
    done = any_room.python(
        HELLO + f"s = socket.socket(); print(s.connect_ex(('127.0.0.1', {outsider})))"
    )
    assert done.stdout.strip() in ("1", "111")
    if any_room.sandbox.features.notify:
        assert done.report.refused == (f"connect to 127.0.0.1 port {outsider}",)


def test_the_gateway_can_be_reached(any_room: Room) -> None:
    path = any_room.root / "socket"
    with open_tcp_listener() as tcp, open_unix_listener(path) as unix, open_greeter(tcp, unix):
        service = ServicePort(tcp.getsockname()[1], path)
        open_room = any_room.using(services=[service])
        source = f"print(socket.create_connection(('127.0.0.1', {service.port})).recv(99))"
        assert open_room.python(HELLO + source).stdout == "b'nightshift'\n"
        many = "for i in range(300): socket.create_connection(('127.0.0.1', %d)).recv(99)"
        assert open_room.python(HELLO + many % service.port).exit_status == 0


def test_unix_sockets_below_the_scratch_folder(any_room: Room) -> None:
    source = """
os.chdir(os.environ['TMPDIR'])
s = socket.socket(socket.AF_UNIX); s.bind('a.sock'); s.listen()
for path in ('a.sock', os.getcwd() + '/a.sock', os.getcwd() + '/../tmp/a.sock'):
    c = socket.socket(socket.AF_UNIX); c.connect(path)
    s.accept()[0].sendall(b'x'); print(c.recv(1))
"""
    done = any_room.python(HELLO + source)
    assert (done.stdout, done.stderr) == ("b'x'\n" * 3, "")


def test_unix_sockets_of_outsiders(any_room: Room) -> None:
    """By path, by a link in the scratch folder, by an abstract name."""
    path, name = any_room.root / "outsider", f"\0nightshift-test-{os.getpid()}"
    with open_unix_listener(path), open_unix_listener(name):
        source = f"""
os.symlink('{path}', os.environ['TMPDIR'] + '/link')
for address in ('{path}', os.environ['TMPDIR'] + '/link', '{name.replace(chr(0), chr(92) + "0")}'):
    print(socket.socket(socket.AF_UNIX).connect_ex(address))
"""
        done = any_room.python(HELLO + source)
    assert done.stderr == ""
    assert all(number != "0" for number in done.stdout.split())
    assert len(done.stdout.split()) == 3


def test_poll_before_connect_and_the_end_of_a_stream(any_room: Room) -> None:
    source = """
port = serve()
s = socket.socket(); s.setblocking(False)
p = select.epoll(); p.register(s, select.EPOLLOUT | select.EPOLLIN)
assert s.connect_ex(('127.0.0.1', port)) in (0, errno.EINPROGRESS)
assert p.poll(60); s.send(b'ab')
got = b''
while True:
    p.poll(60)
    try: part = s.recv(9)
    except BlockingIOError: time.sleep(.01); continue
    if not part: break
    got += part
print(got, s.connect_ex(('127.0.0.1', port)) in (0, errno.EISCONN))
"""
    done = any_room.python(HELLO + SERVER + source)
    assert (done.stdout, done.stderr) == ("b'abab' True\n", "")


def test_the_free_port_idiom(any_room: Room) -> None:
    """Bind to 0, close, bind again, many times: a port is free again after its server."""
    source = """
for _ in range(30):
    s = socket.socket(); s.bind(('127.0.0.1', 0)); port = s.getsockname()[1]; s.close()
    assert ask('127.0.0.1', serve(port=port)) == b'hihi'
print(socket.socket().connect_ex(('127.0.0.1', port + 0)) == 0)
"""
    done = any_room.python(HELLO + SERVER + source)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_connect_to_a_free_port_is_refused(any_room: Room) -> None:
    source = """
s = socket.socket(); s.bind(('127.0.0.1', 0)); port = s.getsockname()[1]; s.close()
print(socket.socket().connect_ex(('127.0.0.1', port)) == errno.ECONNREFUSED)
"""
    assert any_room.python(HELLO + source).stdout == "True\n"


def test_a_full_backlog_does_not_stop_the_others(monitored_room: Room) -> None:
    source = """
s = socket.socket(socket.AF_UNIX); path = os.environ['TMPDIR'] + '/f'; s.bind(path); s.listen(0)
def fill():
    c = socket.socket(socket.AF_UNIX); c.connect(path); time.sleep(90)
for _ in range(5): threading.Thread(target=fill, daemon=True).start()
time.sleep(.2)
print(ask('127.0.0.1', serve())); os._exit(0)
"""
    done = monitored_room.python(
        HELLO + SERVER + source.replace("os._exit", "sys.stdout.flush();os._exit")
    )
    assert done.stdout == "b'hihi'\n"


def test_many_sockets_that_are_never_connected(monitored_room: Room) -> None:
    source = """
for _ in range(3000): socket.socket().close()
held = [socket.socket() for _ in range(500)]
print(ask('127.0.0.1', serve()))
"""
    assert monitored_room.python(HELLO + SERVER + source).stdout == "b'hihi'\n"


RACE = """
import ctypes, mmap, os, socket, struct, time
libc = ctypes.CDLL(None)
good = struct.pack('=H', 2) + (%d).to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8)
bad = struct.pack('=H', 2) + (%d).to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8)
memory = mmap.mmap(-1, 16)
address = (ctypes.c_char * 16).from_buffer(memory)
end = time.monotonic() + 100
if (pid := os.fork()) == 0:
    while time.monotonic() < end:
        for _ in range(1000): memory[:] = bad; memory[:] = good
    os._exit(0)
ends = {0: 0, -1: 0}
while (sum(ends.values()) < 1000 or not all(ends.values())) and time.monotonic() < end:
    s = socket.socket(); ends[libc.connect(s.fileno(), address, 16)] += 1; s.close()
os.kill(pid, 9)
print(all(ends.values()), sum(ends.values()))
"""


def test_to_rewrite_the_address_during_a_connect_has_no_effect(monitored_room: Room) -> None:
    """The checked address is the one in use: no attempt connects to another service."""
    reached: list[int] = []
    with open_tcp_listener() as good, open_tcp_listener() as bad:
        bad.settimeout(0.1)
        good.listen(1024)
        threading.Thread(target=_accept_all, args=(good, []), daemon=True).start()
        threading.Thread(target=_accept_all, args=(bad, reached), daemon=True).start()
        ports = good.getsockname()[1], bad.getsockname()[1]
        room = monitored_room.using(services=[ServicePort(ports[0], monitored_room.root)])
        done = room.python(RACE % ports)
        good.shutdown(socket.SHUT_RDWR)
        bad.shutdown(socket.SHUT_RDWR)
    assert done.stdout.startswith("True 1"), done
    assert done.report.refused == (f"connect to 127.0.0.1 port {ports[1]}",)  # it was tried
    assert reached == []


def _accept_all(listener: socket.socket, seen: list[int]) -> None:
    while True:
        try:
            listener.accept()[0].close()
            seen.append(1)
        except TimeoutError:
            continue
        except OSError:
            return


def test_signals_do_not_break_calls(monitored_room: Room) -> None:
    """With handlers that restart calls; without, one in some thousand ends with EINTR."""
    source = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, .001, .001)
port = serve()
for _ in range(100): assert ask('127.0.0.1', port) == b'hihi'
print('ok')
"""
    done = monitored_room.python(HELLO + SERVER + source)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_a_tree_dies_with_its_monitor(landlock_room: Room) -> None:
    """If the monitor is killed, the program dies, and cannot connect unchecked."""
    source = """
import signal, subprocess
child = subprocess.Popen([sys.executable, '-c', '''
import time, os, sys
end = time.monotonic() + 100
while os.getppid() == int(sys.argv[1]) and time.monotonic() < end: time.sleep(.01)
''', str(os.getpid())])
print(os.getppid(), flush=True); time.sleep(100)
"""
    command = [PYTHON, "-c", HELLO + source]
    env = landlock_room.env()
    with prepare_launch(landlock_room.sandbox, command, env, landlock_room.confinement) as launch:
        process = launch.start()
        assert process.stdout is not None
        monitor = int(process.stdout.readline())
        assert monitor == process.pid
        os.kill(monitor, 9)
        assert process.wait(60) == -9
        assert process.stdout.read() == b""  # the program is dead: its end of the pipe is closed
        end(process)


def test_an_agent_cannot_install_a_listener_of_its_own(monitored_room: Room) -> None:
    """One listener per chain of filters: the program gets an error, our listener keeps working."""
    source = """
import ctypes, struct
code = struct.pack('=HBBI', 6, 0, 0, 0x7fff0000); buffer = ctypes.create_string_buffer(code, 8)
program = struct.pack('=HxxxxxxQ', 1, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(%d, 1, 8, program), ctypes.get_errno() == errno.EBUSY, ask('127.0.0.1', serve()))
"""
    done = monitored_room.python(HELLO + SERVER + source % NUMBERS["seccomp"])
    assert done.stdout == "-1 True b'hihi'\n"


def test_listeners_are_found_both_ways() -> None:
    with open_tcp_listener() as one, socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as two:
        port = one.getsockname()[1]
        two.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        two.bind(("::1", port))
        two.listen()
        inodes = {os.fstat(one.fileno()).st_ino, os.fstat(two.fileno()).st_ino}
        assert _ask_kernel(port) == inodes
        assert _read_proc(port) == inodes


def test_wildcards_become_loopback() -> None:
    four = b"\x02\0\x1f\x90" + bytes(12)
    assert sockets.build_bind_address(four, only_v6=False)[4:8] == b"\x7f\0\0\1"
    six = b"\x0a\0\x1f\x90" + bytes(24)
    assert sockets.build_bind_address(six, only_v6=True)[8:24] == bytes(15) + b"\1"
    mapped = sockets.build_bind_address(six, only_v6=False)
    assert sockets.parse_host_and_port(mapped) == (b"\x7f\0\0\1", 8080)
    elsewhere = b"\x02\0\x1f\x90\x0a\0\0\1" + bytes(8)
    assert sockets.build_bind_address(elsewhere, only_v6=False) == elsewhere


def test_only_sockets_below_a_folder_are_pinned(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    with open_unix_listener(inner / "a"), open_unix_listener(outer / "b"):
        os.close(sockets.pin_socket(str(inner / "a"), [str(inner)]))
        (inner / "link").symlink_to(outer / "b")
        (inner / "folder").symlink_to(outer)
        os.link(outer / "b", inner / "hard")
        (inner / "file").write_text("")
        bad = ("link", "folder/b", "hard", "file", "../outer/b", "missing", ".", "")
        for name in bad:
            with pytest.raises(OSError):
                sockets.pin_socket(f"{inner}/{name}", [str(inner)])
