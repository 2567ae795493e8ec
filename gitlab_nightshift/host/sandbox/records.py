"""What a confined process may do, and what a tier promises."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Tier(StrEnum):
    """How strong a boundary is, the strongest first."""

    NAMESPACES = "namespaces"
    UID = "uid"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Guarantee:
    """One promise in a sentence; ``held`` is False where it is only partly kept."""

    held: bool
    text: str


@dataclass(frozen=True)
class Guarantees:
    """What a boundary gives on this machine, for the log, the report and ``result.json``."""

    files: Guarantee
    secrets: Guarantee
    network: Guarantee
    lifetime: Guarantee

    def lines(self) -> tuple[str, ...]:
        """``files: held: …`` for each of the four."""
        return tuple(
            f"{name}: {'held' if value.held else 'partial'}: {value.text}"
            for name, value in vars(self).items()
        )


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
    """A folder that is seen at another place inside; only the namespaces tier has mounts."""

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

    ``landlock`` is the ABI in use (0: none), ``notify`` whether sockets are made by a keeper,
    ``scopes`` whether signals and abstract sockets of outsiders are out of reach by Landlock.
    """

    landlock: int
    notify: bool

    @property
    def scopes(self) -> bool:
        """Landlock ABI 6 knows signals and abstract sockets."""
        return self.landlock >= 6


@dataclass(frozen=True)
class Identity:
    """The user and group of the uid tier, taken as long as the descriptor ``lock`` is open."""

    uid: int
    gid: int
    lock: int = field(repr=False, compare=False)
