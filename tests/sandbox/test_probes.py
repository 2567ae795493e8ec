"""The attempts of a proof: an attempt that is not made finds no hole."""

import contextlib
import re
from pathlib import Path

from gitlab_nightshift.sandbox.inside.attacks import VERBS
from gitlab_nightshift.sandbox.probes import PRIVATE_FILES, ProbeTargets, gather_probes
from gitlab_nightshift.sandbox.tiers import Confinement, ServicePort
from gitlab_nightshift.system.processes import list_ancestors

EXPECTED = """
the job's environments: read the environment of this process
the job's memory and descriptors: open the memory of this process
the job's memory and descriptors: list the descriptors of this process
the job's memory and descriptors: take a descriptor of this process
the job's memory and descriptors: read memory of this process
the job's memory and descriptors: ptrace this process
secret files: use the root of this process
signals to the job: signal this process
the job's environments: read the environment of ancestor PID
the job's memory and descriptors: open the memory of ancestor PID
the job's memory and descriptors: list the descriptors of ancestor PID
the job's memory and descriptors: take a descriptor of ancestor PID
secret files: use the root of ancestor PID
signals to the job: signal ancestor PID
secret files: read a private file elsewhere
secret files: read HERE/hidden
secret files: read HERE/hidden/token
other files: read a public file elsewhere
modes of other files: change the mode of a file elsewhere
modes of other files: change it by a descriptor
modes of other files: change the times of a file elsewhere
modes of other files: change the owner of a file elsewhere
writing outside: write to /proc/sys/kernel/core_pattern
writing outside: write to /proc/sysrq-trigger
writing outside: write to /etc/passwd
writing outside: write to /dev/mem
writing outside: write to /proc/self/oom_score_adj
writing outside: write into HERE
writing outside: write into CANARIES
services on this machine: reach a service on loopback
services on this machine: reach it by TCP fast open
services on this machine: send a datagram
direct network: connect to the network
direct network: connect by IPv6
direct network: send a datagram to the network
direct network: make a raw socket
direct network: make a netlink socket
direct network: make a packet socket
direct network: make a SCTP socket
direct network: make a MPTCP socket
direct network: make a crypto socket
direct network: make a vsock socket
sockets of other programs: connect to an abstract socket
sockets of other programs: connect to a socket file
access to the gateway: connect to port 4711
rights, keys, namespaces: hold capabilities
rights, keys, namespaces: inherit descriptors
rights, keys, namespaces: use keyrings
rights, keys, namespaces: make a user namespace
outliving the bead: outlive the bead
"""
OPTIONAL = ("give a file elsewhere an attribute", "reach 1", "reach 2")
"""If the file system has attributes, and if there is a network."""


def gather(folder: Path) -> tuple[list[str], set[str]]:
    """The attempts, each with its row, and their verbs."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "token").write_text("glpat-secret")
    confinement = Confinement(folder, (folder,), services=(ServicePort(4711, folder / "socket"),))
    with contextlib.ExitStack() as stack:
        targets = ProbeTargets((hidden, hidden / "token"), (folder,))
        probes = gather_probes(confinement, targets, stack)
    canaries = str(list(probes.written.values())[-1].parent)
    optional = *OPTIONAL, *(f"read {path}" for path in PRIVATE_FILES)
    lines = [f"{row.title}: {n}" for n, row in probes.rows.items() if not n.startswith(optional)]
    text = "\n".join(lines).replace(canaries, "CANARIES").replace(str(folder), "HERE")
    return text.split("\n"), {attempt.verb for attempt in probes.attempts}


def test_each_attempt_is_made_and_the_same_on_each_ancestor(tmp_path: Path) -> None:
    found = [re.sub(r"(?<=ancestor )\d+", "PID", line) for line in gather(tmp_path)[0]]
    assert {*found} == {*EXPECTED.strip().split("\n")}
    above = len(list_ancestors()) - 1
    assert {line: found.count(line) for line in found if "ancestor" in line} == dict.fromkeys(
        (line for line in EXPECTED.split("\n") if "ancestor" in line), above
    )


def test_every_verb_of_the_attacks_is_used(tmp_path: Path) -> None:
    elsewhere = {"same", "set_mode", "usable", "greeted", "change_attribute"}
    assert {*VERBS} - gather(tmp_path)[1] <= elsewhere
