"""A stage of this program as a process of its own: a sealed start, named variables, nothing of the
job's environment (``sealed_entry.py``)."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from subprocess import PIPE, Popen
from typing import Any

from gitlab_nightshift.sandbox.process import EndReason, ProcessLimits, attend
from gitlab_nightshift.sandbox.process_places import Places, find_rights
from gitlab_nightshift.sandbox.process_table import Confined, ProcessRow
from gitlab_nightshift.sealed_start import prepare_stage
from gitlab_nightshift.system.file_names import format_path

LONGEST_WORDS = 200
FIRST_PROCESS = 1
NOWHERE: Places = {}
Stream = int | None
"""As ``subprocess`` takes it; None: this process's own."""


class StageFailedError(Exception):
    """A stage that did not end well; the text continues "the process …"."""


def start_stage(
    row: ProcessRow,
    data: Mapping[str, Any],
    env: Mapping[str, str],
    descriptors: Collection[int] = (),
    streams: tuple[Stream, Stream, Stream] = (PIPE, PIPE, PIPE),
    prefix: Sequence[str] = (),
    places: Places = NOWHERE,
) -> Popen[bytes]:
    """Start ``main(data)`` of a row's module in a session of its own, with ``descriptors`` and
    ``streams``; this is how each process of this program is started.

    ``env`` is its whole environment, ``data`` becomes JSON. It gets SIGTERM when the calling thread
    ends. Before ``main`` it gives up what its row does not name, where that says so; ``places`` are
    the paths in it. ``prefix`` is a command that starts it in namespaces of its own, as its first
    process's child. Raises OSError.
    """
    if row.confined is Confined.AT_START:
        data = {**data, "rights": asdict(find_rights(row, places, env))}
    start = prepare_stage(row.module, data, env, FIRST_PROCESS if prefix else None)
    stdin, stdout, stderr = streams
    try:
        return Popen(
            [*prefix, *start.command],
            cwd="/",
            env=start.env,
            pass_fds=[start.descriptor, *descriptors],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    finally:
        os.close(start.descriptor)


def run_stage(
    row: ProcessRow,
    data: Mapping[str, Any],
    env: Mapping[str, str],
    stdin: bytes,
    limits: ProcessLimits,
    places: Places = NOWHERE,
) -> bytes:
    """What a stage printed, once it has ended well; none of its descendants is left then.

    Raises StageFailedError.
    """
    out, err = _MemorySink(), _MemorySink()
    try:
        end, status = attend(
            lambda: start_stage(row, data, env, places=places), stdin, out, err, limits
        )
    except OSError as error:
        raise StageFailedError(f"could not be started: {error.strerror}") from None
    if end is not EndReason.EXITED:
        raise StageFailedError(f"was ended: {end.value.replace('_', ' ')}")
    if status:
        words = err.read_all()[-LONGEST_WORDS:].decode("utf-8", "replace").strip()
        raise StageFailedError(
            f"ended with exit status {status}" + (f": {format_path(words)}" * bool(words))
        )
    return out.read_all()


class _MemorySink:
    """A sink in memory; ``ProcessLimits`` bound how much comes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes, /) -> None:
        """Take the next bytes."""
        self._parts.append(data)

    def read_all(self) -> bytes:
        """All of them."""
        return b"".join(self._parts)
