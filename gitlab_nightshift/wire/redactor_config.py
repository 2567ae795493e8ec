"""The redactor's configuration: one record, written once to a pipe at its start."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sender:
    """The process that sends on the pipe ``descriptor``, and what it may send: ``events`` by name
    (``event_wire.FROM_WORK``), ``records`` as pairs of a name in the results and a kind
    (``kept_records.KINDS``), and ``logs``. ``awaited``: the run must wait for this sender."""

    name: str
    descriptor: int
    events: tuple[str, ...]
    records: tuple[tuple[str, str], ...] = ()
    logs: bool = False
    awaited: bool = False


@dataclass(frozen=True)
class Configuration:
    """``values`` are the job's secrets. ``results`` and ``logs`` are folders that are there, the
    ``reserve`` for a full disk lies beside ``logs``; the job log goes to the descriptor ``output``,
    and the name of each sender, a line, to ``ended`` once all that it sent is written.
    ``live`` is a folder, as a descriptor, into which events are written as well.

    Of senders that wait at the same time the first ones are read first. So the one that reports the
    start of the run comes first, then the others in the order in which they start.
    """

    run_id: str
    values: tuple[str, ...]
    results: str
    logs: str
    sections: bool
    colour: bool
    output: int
    ended: int
    live: int | None
    senders: tuple[Sender, ...]
