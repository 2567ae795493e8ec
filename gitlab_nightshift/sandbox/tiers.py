"""The rights of a confined process, the guarantees of a tier, and the rows of the proof."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True)
class ProofRow:
    """A row of the proof's table: its subject, and the guarantee to which it belongs: a field of
    ``Guarantees``, or ``gateway`` or ``code``, which hold in every tier."""

    title: str
    guarantee: str


ENVIRONMENTS = ProofRow("the job's environments", "secrets")
MEMORY = ProofRow("the job's memory and descriptors", "secrets")
SECRET_FILES = ProofRow("secret files", "secrets")
OTHER_FILES = ProofRow("other files", "files")
WRITING = ProofRow("writing outside", "files")
FILE_MODES = ProofRow("modes of other files", "files")
SERVICES = ProofRow("services on this machine", "network")
DIRECT_NETWORK = ProofRow("direct network", "network")
OTHER_SOCKETS = ProofRow("sockets of other programs", "secrets")
RIGHTS = ProofRow("rights, keys, namespaces", "secrets")
SIGNALS = ProofRow("signals to the job", "lifetime")
OUTLIVING = ProofRow("outliving the bead", "lifetime")
GATEWAY = ProofRow("access to the gateway", "gateway")
OWN_CODE = ProofRow("this program's own code", "code")
WORK_READERS = ProofRow("what reads agents' work", "secrets")
ROWS = (
    *(ENVIRONMENTS, MEMORY, SECRET_FILES, OTHER_FILES, WRITING, FILE_MODES, SERVICES),
    *(DIRECT_NETWORK, OTHER_SOCKETS, RIGHTS, SIGNALS, OUTLIVING, GATEWAY, OWN_CODE, WORK_READERS),
)


class Tier(StrEnum):
    """The kinds of boundary, the strongest first."""

    NAMESPACES = "namespaces"
    UID = "uid"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Guarantee:
    """What a tier guarantees, as a sentence. ``open_rows`` are the rows of the proof that it does
    not cover; if there are any, the sentence says what an agent can do."""

    text: str
    open_rows: tuple[ProofRow, ...] = ()

    @property
    def held(self) -> bool:
        """True if the guarantee holds wholly, False if only partly."""
        return not self.open_rows


@dataclass(frozen=True)
class Guarantees:
    """The guarantees of a boundary on this machine."""

    files: Guarantee
    secrets: Guarantee
    network: Guarantee
    lifetime: Guarantee

    def closes(self, row: ProofRow) -> bool:
        """True if no attempt of the row may get through. Rows of ``gateway`` and ``code`` are
        closed in every tier."""
        guarantee: Guarantee | None = getattr(self, row.guarantee, None)
        return guarantee is None or row not in guarantee.open_rows


@dataclass(frozen=True)
class ServicePort:
    """Where a confined process reaches a service of this program: on ``127.0.0.1:port``.

    The namespaces tier has no network: there a forwarder connects to the UNIX ``socket`` on which
    the service also listens. The agent needs no rights on the socket's folder.
    """

    port: int
    socket: Path


@dataclass(frozen=True)
class Mount:
    """A folder that the sandbox shows under another path; only the namespaces tier has mounts."""

    source: Path
    target: Path
    writable: bool


@dataclass(frozen=True)
class Confinement:
    """The paths and services that a process and its descendants may access. Paths are absolute.

    ``writable`` folders may contain anything but devices. ``read_only`` are files or folders
    besides the system's own (an agent's installation, caches, a JDK); inside a writable folder,
    only the namespaces tier can keep them read-only. UNIX sockets below a writable folder may be
    connected to.
    """

    cwd: Path
    writable: tuple[Path, ...]
    read_only: tuple[Path, ...] = ()
    services: tuple[ServicePort, ...] = ()
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Features:
    """The features of the kernel that a sandbox uses, as a trial has shown.

    ``landlock`` is the ABI in use (0: none). ``notify``: a monitor, which gets agents' system calls
    by seccomp's user notification, makes sockets for them, and changes modes and times if they run
    as the job's user. ``monitor_failure`` is why there is none, "" if there is or none is needed.
    """

    landlock: int
    notify: bool
    monitor_failure: str = ""


@dataclass(frozen=True)
class SandboxUser:
    """The user and group of the uid tier, reserved while the descriptor ``lock`` is open."""

    uid: int
    gid: int
    lock: int = field(repr=False, compare=False)
