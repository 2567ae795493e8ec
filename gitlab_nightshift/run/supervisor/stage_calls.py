"""Starts and calls stages: each gets its input once, and answers once. Stages that run agents get a
gateway.
"""

import contextlib
import functools
import json
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Protocol

from gitlab_nightshift.errors import Code, NightshiftError
from gitlab_nightshift.gateway.gateway_start import GatewayProcess, start_gateway
from gitlab_nightshift.gateway.upstream import ModelKey
from gitlab_nightshift.gateway.usage_reports import UsageReader
from gitlab_nightshift.job.job_secrets import MODEL_KEYS
from gitlab_nightshift.records.usage import SpendingLimit, Usage, add_usage
from gitlab_nightshift.run.supervisor.output_pipes import Pipes
from gitlab_nightshift.run.supervisor.stop_signals import Signals
from gitlab_nightshift.sandbox.process_places import Places
from gitlab_nightshift.sandbox.process_table import PLAN, PUBLISH, ProcessRow
from gitlab_nightshift.sandbox.supervised_process import StageProcess
from gitlab_nightshift.system.network_settings import PROXIES
from gitlab_nightshift.system.processes import end_orphans, list_own_children
from gitlab_nightshift.system.signals import start_with_signals_blocked

KEY_IS_SET = "set"
"""Placeholder for a model key, in processes that may only know that it is set."""
WITH_NETWORK = (PLAN, PUBLISH)
"""Stages that need the job's own proxies."""


def hide_key_values(env: Mapping[str, str]) -> dict[str, str]:
    """The job's environment, with a placeholder for each model key."""
    keys = {name: KEY_IS_SET for name in MODEL_KEYS if env.get(name, "").strip()}
    return {**env, **keys}


def has_key(env: Mapping[str, str]) -> bool:
    """True if a model key is set."""
    return any(env.get(name, "").strip() for name in MODEL_KEYS)


def remove_proxies(own_env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that uses no network."""
    return {name: value for name, value in own_env.items() if name not in PROXIES}


class SupervisedStage:
    """A started stage that waits for its input."""

    def __init__(
        self, process: StageProcess, descriptors: Mapping[str, int], signals: Signals
    ) -> None:
        self._process, self._descriptors, self._signals = process, descriptors, signals

    def run(self, inputs: Mapping[str, Any], *, forwarding: bool = True) -> dict[str, Any]:
        """Send the input, and wait for the stage's end. Returns its answer, {} without one.

        With ``forwarding``, signals to this process are forwarded to the stage.
        """
        self._process.send_task({**inputs, **self._descriptors})
        with self._signals.forward_to(self._process) if forwarding else contextlib.nullcontext():
            return self._process.read_answer()


class RunnableStage(Protocol):
    """A started stage, confined or not."""

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Send the input, wait for the stage's end, and return its answer."""
        ...


StartStage = Callable[[Sequence[str]], AbstractContextManager[RunnableStage]]
"""Starts a stage with a command prefix that confines it."""
BeadUsages = tuple[Usage, ...]
"""The usage of each bead, as the gateway counted it."""
Confine = Callable[[StartStage, Callable[[], bool]], AbstractContextManager[RunnableStage]]
"""Starts a stage confined. The second argument returns True while no agent can have influenced the
stage."""


class Worker:
    """A stage that runs agents, and the gateway to their model."""

    def __init__(
        self, stage: RunnableStage, gateway: GatewayProcess, usage_reader: UsageReader
    ) -> None:
        self._stage, self._gateway, self._usage_reader = stage, gateway, usage_reader

    def run(
        self, inputs: Mapping[str, Any], config: dict[str, Any] | None, env: Mapping[str, str]
    ) -> tuple[dict[str, Any], BeadUsages | None]:
        """Run the stage with a gateway that has the configuration ``config`` and the model key of
        ``env``. Returns, once all processes of the stage are dead, the stage's answer and what the
        gateway counted. Raises NightshiftError if one of these processes survives."""
        earlier_children, usage_reader = list_own_children(), self._usage_reader
        self._gateway.configure(_with_key(config, env))
        with _read_in_thread(self._gateway.report, usage_reader.feed):
            try:
                answer = self._stage.run({**inputs, "gateway": bool(config)})
                all_ended = end_orphans(lambda: list_own_children() - earlier_children)
            finally:
                self._gateway.control.close()  # ends the gateway, and with it its report
        if not all_ended:
            text = "processes of work are left that cannot be ended"
            raise NightshiftError(Code.INTERNAL, text)
        return answer, usage_reader.list_usage() if config else None


@dataclass(frozen=True)
class Latch:
    """Open until work starts the first agent: then it writes a byte to the pipe ``write_end``. From
    then on, an agent can have influenced work. The gateway cannot know this: an agent may reach its
    model by another way."""

    write_end: int
    _read_end: int

    def is_open(self) -> bool:
        """True while no agent can have influenced the stage."""
        # The byte is never read, so the latch stays closed.
        readable, _, _ = select.select([self._read_end], [], [], 0)
        return not readable


@contextlib.contextmanager
def open_latch() -> Iterator[Latch]:
    """A new latch."""
    read_end, write_end = os.pipe()
    try:
        yield Latch(write_end, read_end)
    finally:
        os.close(read_end)
        os.close(write_end)


class Stages:
    """Starts stages; ``own_env`` is the environment of this program's processes."""

    def __init__(self, pipes: Pipes, own_env: Mapping[str, str], signals: Signals) -> None:
        self._pipes, self._own_env, self._signals = pipes, own_env, signals

    @contextlib.contextmanager
    def open_stage(
        self,
        sender: str,
        row: ProcessRow,
        descriptors: Mapping[str, int] | None = None,
        prefix: Sequence[str] = (),
        *,
        data: Mapping[str, Any] | None = None,
        places: Places | None = None,
    ) -> Iterator[SupervisedStage]:
        """Start a stage, which imports its modules while it waits for its input; it ends with the
        block.

        It inherits ``descriptors`` and a pipe to the redactor. ``prefix`` precedes its command;
        ``data`` is its start data; ``places`` are the paths in its row. Its output is dropped if it
        reads agents' work and has no secrets.
        """
        outlet = self._pipes.take(sender)
        inherited = {"outlet": outlet, **(descriptors or {})}
        try:
            process = StageProcess(
                row,
                self._own_env if row in WITH_NETWORK else remove_proxies(self._own_env),
                data,
                descriptors=inherited.values(),
                quiet=bool(row.agent_bytes and not row.secrets),
                prefix=prefix,
                places=places,
            )
        finally:
            os.close(outlet)  # only the stage's copy stays open, until the stage ends
        with contextlib.closing(process):
            yield SupervisedStage(process, inherited, self._signals)

    @contextlib.contextmanager
    def open_worker(
        self,
        sender: str,
        row: ProcessRow,
        confine: Confine | None = None,
        descriptors: Mapping[str, int] | None = None,
        *,
        preload_gateway: bool,
        data: Mapping[str, Any] | None = None,
    ) -> Iterator[Worker]:
        """Start a stage that runs agents, and its gateway. The stage imports its modules while it
        waits for input, the gateway only with ``preload_gateway``. The stage inherits
        ``descriptors``; ``data`` is its start data."""
        with contextlib.ExitStack() as stack:
            gateway = stack.enter_context(start_gateway(self._own_env, likely=preload_gateway))
            latch = stack.enter_context(open_latch())
            inherited = {"control": gateway.control.fileno(), "latch": latch.write_end}
            inherited |= descriptors or {}
            start = functools.partial(self.open_stage, sender, row, inherited, data=data)
            started = start() if confine is None else confine(start, latch.is_open)
            yield Worker(stack.enter_context(started), gateway, UsageReader())


def _with_key(config: dict[str, Any] | None, env: Mapping[str, str]) -> bytes:
    """The gateway's configuration with the model key, as JSON; empty without a configuration."""
    if not config:
        return b""
    if config["upstream"]:
        key = config["upstream"]["key"]
        if value := env.get(key["variable"], "").strip():
            key["value"] = ModelKey(key["variable"], value).value
    return json.dumps(config).encode()


def limit_budget(config: dict[str, Any] | None, usages: BeadUsages | None) -> dict[str, Any] | None:
    """A gateway's configuration, with its limits reduced by what earlier beads have used."""
    if not usages or not config:
        return config
    return {**config, "limit": asdict(SpendingLimit(**config["limit"]).subtract(usages))}


def append_usages(earlier: BeadUsages | None, later: BeadUsages | None) -> BeadUsages | None:
    """The usages of two gateways' beads; None if there was neither gateway."""
    return later if earlier is None else (*earlier, *(later or ()))


def compute_total_usage(usages: BeadUsages | None) -> Usage | None:
    """The total of all beads; None without a gateway."""
    return None if usages is None else add_usage(usages)


@contextlib.contextmanager
def _read_in_thread(pipe: BinaryIO, feed: Callable[[bytes], None]) -> Iterator[None]:
    """Read the pipe in a thread during the block, which ends when everything has been read."""

    def read() -> None:
        while data := pipe.read(1 << 16):
            feed(data)

    reading = threading.Thread(target=read)
    start_with_signals_blocked(reading)
    try:
        yield
    finally:
        reading.join()
