"""Attacks by TCP, and on its servers."""

import ctypes
import mmap
import socket
import struct
import time

from tests.attacks.attack import ITSELF, NETWORK, attack_on, demand
from tests.attacks.places import Places, call, checked, flag_in, heard, hit, libc, reach, read
from tests.attacks.races import rewriting, tries

FAST_OPEN = demand(
    "switched off on this machine",
    lambda _places: int(read("/proc/sys/net/ipv4/tcp_fastopen")) & 1,
)


@attack_on("network", "The filter knows the options that may be set by name.", a_right=True)
def bound_to_device(places: Places) -> str | None:
    """Sets SO_BINDTODEVICE, so that an allowed address leads elsewhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    return "the device is chosen"


CONNECT, WAIT, SHARED = 16, 1, mmap.MAP_SHARED


@attack_on(
    "network",
    "The filter refuses to make a ring.",
    needs=lambda places: call(places, "io_uring_setup", 2, ctypes.create_string_buffer(120)),
)
def io_uring(places: Places) -> str | None:
    """Puts the connect into a ring that the kernel empties by itself, past any filter of calls."""
    set_up = ctypes.create_string_buffer(120)
    ring = call(places, "io_uring_setup", 2, set_up)
    at = struct.unpack_from("=10I", set_up, 40)  # sq_off: head, tail, mask, …, array at 6
    queue = mmap.mmap(ring, at[6] + 8, SHARED)
    entries = mmap.mmap(ring, 128, SHARED, offset=0x10000000)
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    port = places.ports["tcp"].to_bytes(2, "big")
    raw = struct.pack("=H", socket.AF_INET) + port + b"\x7f\0\0\1" + bytes(8)
    address = ctypes.create_string_buffer(raw, 16)
    where = ctypes.addressof(address)
    entries[:32] = struct.pack("=BBHiQQII", CONNECT, 0, 0, one.fileno(), 16, where, 0, 0)
    struct.pack_into("=I", queue, at[6], 0)
    struct.pack_into("=I", queue, at[1], 1)
    call(places, "io_uring_enter", ring, 1, 1, WAIT, None, 0)
    return heard(one)


MPTCP = 262


@attack_on(
    "network",
    "Streams are TCP or nothing.",
    needs=lambda places: socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP).close(),
)
def mptcp(places: Places) -> str | None:
    """Reaches a TCP service by MPTCP, for which Landlock's port rules do not hold."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    one.connect(("127.0.0.1", places.ports["tcp"]))
    return heard(one)


@attack_on(
    "network",
    "A wildcard becomes loopback, another address is refused; a namespace has its own.",
    needs=NETWORK,
    seen=lambda places: hit(places, "offered"),
)
def open_to_the_network(places: Places) -> str | None:
    """Listens on all addresses, and lets somebody outside connect to it and take what it has."""
    for host in ("0.0.0.0", places.own_address):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, places.ports["offered"]))
            one.listen()
            hit(places, "offered")
    return "offered"


@attack_on(
    "secrets",
    "The filter refuses ioperm, iopl and modify_ldt.",
    needs="this kernel has none of it",
    a_right=True,
)
def ports_of_the_machine(places: Places) -> str | None:
    """Asks for I/O ports and for a local descriptor table."""
    for name, arguments in (("ioperm", (0x80, 1, 1)), ("iopl", (3,)), ("modify_ldt", (0, None, 0))):
        try:
            call(places, name, *arguments)
        except OSError:
            continue
        return f"{name} is there"
    return None


LOOSE_ROUTE = b"\x83\x07\x04\xc0\x00\x02\x01\x00"


@attack_on(
    "network", "The filter knows the options that may be set by name.", needs=ITSELF, a_right=True
)
def source_route(places: Places) -> str | None:
    """Sets IP_OPTIONS, so that packets for an allowed address go by another host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, LOOSE_ROUTE)
    return "the way is chosen"


@attack_on("network", "The monitor lets nobody listen where somebody outside the tree listens.")
def stolen_port(places: Places) -> str | None:
    """Listens on the port of a running service beside it (SO_REUSEPORT) and gets its clients."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        thief.bind(("127.0.0.1", places.ports["shared"]))
        thief.listen()
        thief.settimeout(places.arrives_s)
        found = None
        while not found:
            guest, _ = thief.accept()
            with guest:
                found = flag_in(guest.recv(100))
    return found


@attack_on("network", "The monitor judges every connect, and lets a socket be connected once.")
def tcp_again(places: Places) -> str | None:
    """Connects to the gateway, dissolves the connection (AF_UNSPEC) and connects elsewhere."""
    with socket.create_connection(("127.0.0.1", places.gateway), 2) as way:
        way.setblocking(True)
        checked(libc.connect(way.fileno(), ctypes.create_string_buffer(16), 16))
        way.connect(("127.0.0.1", places.ports["tcp"]))
        return heard(way)


@attack_on(
    "network",
    "The filter refuses the flag and every address in sendto.",
    needs=FAST_OPEN,
)
def tcp_fast_open(places: Places) -> str | None:
    """Sends data to an address without connect: sendto with MSG_FASTOPEN."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", places.ports["tcp"]))
    return heard(one)


@attack_on(
    "network",
    "The filter refuses the flag; without it TCP takes no address.",
    needs=FAST_OPEN,
)
def tcp_fast_open_message(places: Places) -> str | None:
    """The address stands in a structure in memory, where no filter can look."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    address = ("127.0.0.1", places.ports["tcp"])
    one.sendmsg([b"x"], [], socket.MSG_FASTOPEN, address)
    return heard(one)


FASTOPEN_CONNECT = 30


@attack_on(
    "network", "The filter knows the options that may be set by name.", needs=ITSELF, a_right=True
)
def tcp_fast_open_option(places: Places) -> str | None:
    """Sets TCP_FASTOPEN_CONNECT: connect returns at once, the first write connects."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.IPPROTO_TCP, FASTOPEN_CONNECT, 1)
    return "the option is set"


@attack_on("network", "A port is allowed together with its host; Landlock alone could not tell.")
def tcp_gateway_port_elsewhere(places: Places) -> str | None:
    """Connects to a port that is allowed, but where somebody else listens."""
    return reach("127.0.0.2", places.gateway)


@attack_on(
    "network",
    "The same rules by either family.",
    needs=demand("no IPv6 on this machine", lambda places: "tcp6" in places.ports),
)
def tcp_ipv6(places: Places) -> str | None:
    """Connects to ::1."""
    return reach("::1", places.ports["tcp6"], socket.AF_INET6)


@attack_on(
    "network", "The monitor knows the gateway's port and those of the agent's own servers only."
)
def tcp_loopback(places: Places) -> str | None:
    """Connects to a port of the job's machine: a database, a metadata proxy."""
    return reach("127.0.0.1", places.ports["tcp"])


@attack_on(
    "network",
    "It is unwrapped before it is judged.",
    needs=lambda places: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close(),
)
def tcp_mapped(places: Places) -> str | None:
    """Connects to ::ffff:127.0.0.1."""
    return reach("::ffff:127.0.0.1", places.ports["tcp"], socket.AF_INET6)


@attack_on("network", "Of 127/8 only 127.0.0.1 counts as loopback.")
def tcp_other_loopback(places: Places) -> str | None:
    """Connects to 127.0.0.2, where a service on all addresses listens, too (Docker's DNS does)."""
    return reach("127.0.0.2", places.ports["mapped"])


@attack_on(
    "network",
    "Only loopback is ever connected to; a namespace has nothing else.",
    needs=NETWORK,
)
def tcp_own_address(places: Places) -> str | None:
    """Connects to the same machine by its address in the network."""
    return reach(places.own_address, places.ports["mapped"])


ATTEMPTS = 100


def _address(port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + b"\x7f\0\0\1" + bytes(8)


@attack_on(
    "network",
    "The monitor connects by its own copy of the address.",
    seen=lambda places: hit(places, "race"),
)
def tcp_race(places: Places) -> str | None:
    """Rewrites the address from elsewhere between check and use, as often as it can."""
    good, bad = _address(places.gateway), _address(places.ports["race"])
    shared = mmap.mmap(-1, 4096)
    rewritten = rewriting(shared, 0, bad, good)
    address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    for _ in tries(ATTEMPTS, rewritten):
        with socket.socket() as one:
            libc.connect(one.fileno(), address, 16)
        time.sleep(0.0005)
    return "tried it all"


@attack_on("network", "It counts as loopback, with loopback's rules.")
def tcp_zero(places: Places) -> str | None:
    """Connects to the wildcard, which leads to loopback."""
    return reach("0.0.0.0", places.ports["tcp"])
