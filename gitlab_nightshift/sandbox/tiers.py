"""What a confined process may do, and what a tier promises."""

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
    """One promise in a sentence. ``leaves`` are the rows of the proof that it does not close."""

    text: str
    leaves: tuple[ProofRow, ...] = ()

    @property
    def held(self) -> bool:
        """False where it is only partly kept."""
        return not self.leaves


@dataclass(frozen=True)
class Guarantees:
    """What a boundary gives on this machine."""

    files: Guarantee
    secrets: Guarantee
    network: Guarantee
    lifetime: Guarantee

    def closes(self, row: ProofRow) -> bool:
        """True where nothing of the row may get through; so in every tier for rows of the proof
        that belong to none of the four."""
        promise: Guarantee | None = getattr(self, row.promise, None)
        return promise is None or row not in promise.leaves


@dataclass(frozen=True)
class Gate:
    """A service of ours that a confined process reaches on ``127.0.0.1:port``.

    The namespaces tier has no network, so there the same service is reached through ``socket``, a
    UNIX socket on which it listens too. The socket's folder needs no rights for the agent.
    """

    port: int
    socket: Path


@dataclass(frozen=True)
class Mount:
    """A folder that is at another path inside; only the namespaces tier has mounts."""

    source: Path
    target: Path
    writable: bool


@dataclass(frozen=True)
class Confinement:
    """What one process and its descendants may do. Paths are absolute.

    ``writable`` folders may hold anything but devices; ``read_only`` are files or folders beyond
    the system's own (an agent's installation, caches, a JDK); where one of them lies inside a
    writable folder only the namespaces tier can keep it read-only. UNIX sockets below a writable
    folder may be connected to.
    """

    cwd: Path
    writable: tuple[Path, ...]
    read_only: tuple[Path, ...] = ()
    gates: tuple[Gate, ...] = ()
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Features:
    """What the kernel gave in a trial.

    ``landlock`` is the ABI in use (0: none), ``notify`` whether a monitor makes sockets, and
    changes modes and times where agents are the job's user; ``lacking`` why it does not, "" where
    it does or nobody asked for it.
    """

    landlock: int
    notify: bool
    lacking: str = ""

    @property
    def scopes(self) -> bool:
        """Landlock ABI 6 knows signals and abstract sockets."""
        return self.landlock >= 6


@dataclass(frozen=True)
class SandboxUser:
    """The user and group of the uid tier, taken as long as the descriptor ``lock`` is open."""

    uid: int
    gid: int
    lock: int = field(repr=False, compare=False)
