"""The rights of a confined process, and the promises of a tier."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gitlab_nightshift.sandbox.proof_rows import ProofRow


class Tier(StrEnum):
    """How strong a boundary is, the strongest first."""

    NAMESPACES = "namespaces"
    UID = "uid"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Guarantee:
    """A promise as a sentence. ``leaves`` are the rows of the proof that it leaves open."""

    text: str
    leaves: tuple[ProofRow, ...] = ()

    @property
    def held(self) -> bool:
        """False if it holds only partly."""
        return not self.leaves


@dataclass(frozen=True)
class Guarantees:
    """The promises of a boundary on this machine."""

    files: Guarantee
    secrets: Guarantee
    network: Guarantee
    lifetime: Guarantee

    def closes(self, row: ProofRow) -> bool:
        """True if no attempt of the row may get through. Rows that belong to none of the four are
        closed in every tier."""
        promise: Guarantee | None = getattr(self, row.promise, None)
        return promise is None or row not in promise.leaves


@dataclass(frozen=True)
class Gate:
    """A service of this program that a confined process reaches on ``127.0.0.1:port``.

    The namespaces tier has no network: there the service is reached through ``socket``, a UNIX
    socket on which it also listens. The agent needs no rights on the socket's folder.
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
    """What a process and its descendants may access. Paths are absolute.

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
    """The kernel's features, as a trial has shown.

    ``landlock`` is the ABI in use (0: none). ``notify``: a monitor makes sockets, and changes modes
    and times if agents run as the job's user; ``lacking`` is why there is none, "" if there is one
    or the tier needs none.
    """

    landlock: int
    notify: bool
    lacking: str = ""

    @property
    def scopes(self) -> bool:
        """True if Landlock confines signals and abstract sockets (ABI 6)."""
        return self.landlock >= 6


@dataclass(frozen=True)
class SandboxUser:
    """The user and group of the uid tier, reserved while the descriptor ``lock`` is open."""

    uid: int
    gid: int
    lock: int = field(repr=False, compare=False)
