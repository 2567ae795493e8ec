"""The rights of a confined process, the promises of a tier, and the rows of the proof."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True)
class ProofRow:
    """A row of the proof's table: its subject, and the ``Guarantees`` field to which it belongs
    (``gateway`` and ``code`` are none)."""

    title: str
    promise: str


JOB = ProofRow("the job's environments", "secrets")
MEMORY = ProofRow("the job's memory and descriptors", "secrets")
SECRET_FILES = ProofRow("secret files", "secrets")
OTHER_FILES = ProofRow("other files", "files")
WRITING = ProofRow("writing outside", "files")
MODES = ProofRow("modes of other files", "files")
SERVICES = ProofRow("services on this machine", "network")
DIRECT_NETWORK = ProofRow("direct network", "network")
OTHER_SOCKETS = ProofRow("sockets of other programs", "secrets")
RIGHTS = ProofRow("rights, keys, namespaces", "secrets")
SIGNALS = ProofRow("signals to the job", "lifetime")
OUTLIVING = ProofRow("outliving the bead", "lifetime")
GATEWAY = ProofRow("access to the gateway", "gateway")
OWN_CODE = ProofRow("this program's own code", "code")
CONFINED = ProofRow("what reads agents' work", "secrets")
ROWS = (
    *(JOB, MEMORY, SECRET_FILES, OTHER_FILES, WRITING, MODES, SERVICES, DIRECT_NETWORK),
    *(OTHER_SOCKETS, RIGHTS, SIGNALS, OUTLIVING, GATEWAY, OWN_CODE, CONFINED),
)


class Tier(StrEnum):
    """The kinds of boundary, the strongest first."""

    NAMESPACES = "namespaces"
    UID = "uid"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Guarantee:
    """A promise as a sentence. ``open_rows`` are the rows of the proof that it does not cover."""

    text: str
    open_rows: tuple[ProofRow, ...] = ()

    @property
    def held(self) -> bool:
        """True if the promise holds wholly, False if only partly."""
        return not self.open_rows


@dataclass(frozen=True)
class Guarantees:
    """The promises of a boundary on this machine."""

    files: Guarantee
    secrets: Guarantee
    network: Guarantee
    lifetime: Guarantee

    def closes(self, row: ProofRow) -> bool:
        """True if no attempt of the row may get through. Rows of other promises than these four are
        closed in every tier."""
        promise: Guarantee | None = getattr(self, row.promise, None)
        return promise is None or row not in promise.open_rows


@dataclass(frozen=True)
class Gate:
    """A service of this program that a confined process reaches on ``127.0.0.1:port``.

    The namespaces tier has no network: there a forwarder connects to the UNIX ``socket`` on which
    the service also listens. The agent needs no rights on the socket's folder.
    """

    port: int
    socket: Path


@dataclass(frozen=True)
class Mount:
    """A folder that has another path inside; only the namespaces tier has mounts."""

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
    gates: tuple[Gate, ...] = ()
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Features:
    """The features of the kernel that a sandbox uses, as a trial has shown.

    ``landlock`` is the ABI in use (0: none). ``notify``: a monitor makes sockets, and changes modes
    and times if agents run as the job's user; ``monitor_failure`` is why there is no monitor, "" if
    there is one or the tier needs none.
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
