"""The rows of the proof: each covers one subject, and belongs to one promise."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProofRow:
    """A line of the table: its subject, and the promise to which it belongs."""

    title: str
    promise: str


JOB = ProofRow("the job's environments", "secrets")
MEMORY = ProofRow("the job's memory and descriptors", "secrets")
SECRET_FILES = ProofRow("secret files", "secrets")
OTHER_FILES = ProofRow("other files", "files")
WRITING = ProofRow("writing outside", "files")
MODES = ProofRow("modes of other files", "files")
SERVICES = ProofRow("services on this machine", "network")
DIRECT = ProofRow("direct network", "network")
PROGRAMS = ProofRow("sockets of other programs", "secrets")
RIGHTS = ProofRow("rights, keys, namespaces", "secrets")
SIGNALS = ProofRow("signals to the job", "lifetime")
LIVING = ProofRow("outliving the bead", "lifetime")
GATEWAY = ProofRow("the way to the gateway", "gateway")
OWN_CODE = ProofRow("this program's own code", "code")
CONFINED = ProofRow("what reads agents' work", "secrets")
ROWS = (
    *(JOB, MEMORY, SECRET_FILES, OTHER_FILES, WRITING, MODES, SERVICES, DIRECT, PROGRAMS, RIGHTS),
    *(SIGNALS, LIVING, GATEWAY, OWN_CODE, CONFINED),
)
