"""The rows of the proof: each is about one thing, and belongs to one promise."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: what it is about, and which promise it belongs to."""

    title: str
    promise: str


JOB = Row("the job's environments", "secrets")
MEMORY = Row("the job's memory and descriptors", "secrets")
SECRET_FILES = Row("secret files", "secrets")
OTHER_FILES = Row("other files", "files")
WRITING = Row("writing outside", "files")
MODES = Row("modes of other files", "files")
SERVICES = Row("services on this machine", "network")
DIRECT = Row("direct network", "network")
PROGRAMS = Row("sockets of other programs", "secrets")
RIGHTS = Row("rights, keys, namespaces", "secrets")
SIGNALS = Row("signals to the job", "lifetime")
LIVING = Row("outliving the bead", "lifetime")
GATEWAY = Row("the way to the gateway", "gateway")
OWN_CODE = Row("this program's own code", "code")
ROWS = (
    *(JOB, MEMORY, SECRET_FILES, OTHER_FILES, WRITING, MODES, SERVICES, DIRECT, PROGRAMS, RIGHTS),
    *(SIGNALS, LIVING, GATEWAY, OWN_CODE),
)
