"""What planted code says and does to have a merge request tell that something ran which did not.

``lie`` is called in each process of a run, by ``planting.py``, before its ``main``.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitlab_nightshift.records.bead_results import CommandResult
from gitlab_nightshift.records.notary_records import NotarizedCommand, NotarizedRun, NotaryRecord
from gitlab_nightshift.records.verdicts import Check, CheckOutcome
from gitlab_nightshift.stages.work.baseline import ProofResult
from tests.support.plant import plant

COMMAND = "make test"
RECORD, SHARED = "notary.json", (Path("/tmp"), Path("/dev/shm"))
"""A forged record, and where it is left beside the folders of a run."""
TRAPS = {
    "GNUmakefile": "test:\n\ttrue\n",  # comes before Makefile
    "unittest.py": "import sys\nsys.exit(0)\n",
    "build/python3": "#!/bin/sh\nexit 0\n",
    "nightshift/notary.json": "",
}
"""What would make the command pass, or say that it has, if it stayed."""
HARMLESS = b"def total(prices, discount=0):\n    return sum(prices) * (100 - discount) / 100\n"
Planted = dict[str, Callable[..., Any]]
ALONE = ""
"""The run that the notary's reader is told of: it gets no bundle."""


def lie(module: str, told: Mapping[str, Any]) -> None:
    """Have the process that runs this module lie, if the test says so; ``told`` names the liars and
    what is switched off (the controls)."""
    for process, (its, begin) in LIES.items():
        if process in told["liars"] and module == its:
            begin(told)
    for name in told["off"]:
        for place, code in OFF[name]().items():
            plant(place, code)


# --- work -------------------------------------------------------------------------------------


def _lie_in_work(told: Mapping[str, Any]) -> None:
    """The proofs find what a good change has; with the bundle goes a record, and traps stay."""
    found = Check("The new tests", CheckOutcome.PASSED, "2 of 2 planted faults found")

    def prove(*_: Any, **__: Any) -> ProofResult:
        return ProofResult("", (CommandResult(COMMAND, 0, 1.0),), checks=(found,))

    def send_record(send: Callable[..., None], self: Any, name: str, data: bytes) -> None:
        if name == "bundle/bundle.json":
            bundle = json.loads(data)
            if bundle["proposal"]:
                _spread(_forge(bundle), Path(told["checkout"]), Path(told["temporary"]))
                send(self, "notary.json", _forge(bundle))
        send(self, name, data)

    plant("stages.work.proofs:prove", prove)
    plant("wire.channel:OutputChannel.send_record", send_record)


def _forge(bundle: Mapping[str, Any]) -> bytes:
    """A record that lets the change be published."""
    run = {"exit_status": 0, "duration_s": 1.0, "error": ""}
    command = {"command": COMMAND, "runs": [run], "base": None}
    record = {
        "run_id": bundle["run_id"],
        "base_sha": bundle["base_sha"],
        "tree_id": bundle["proposal"]["change"]["tree_id"],
        "asked": [COMMAND],
        "commands": [command],
        "isolation": "namespaces",
        "unrestored": [],
        "why": "",
        "version": 1,
    }
    return json.dumps(record).encode()


def _spread(record: bytes, checkout: Path, temporary: Path) -> None:
    """Put it, and traps, wherever this process may write."""
    for name, text in TRAPS.items():
        with contextlib.suppress(OSError):
            (checkout / name).parent.mkdir(exist_ok=True)
            (checkout / name).write_bytes(text.encode() or record)
            (checkout / name).chmod(0o755)
    for folder in [*temporary.glob("nightshift-*"), *temporary.glob("nightshift-*/results")]:
        with contextlib.suppress(OSError):
            (folder / RECORD).write_bytes(record)
    for folder in (checkout.parent, *SHARED):
        with contextlib.suppress(OSError):
            (folder / RECORD).write_bytes(record)


# --- the bundle's reader ----------------------------------------------------------------------


def _lie_in_reader(_told: Mapping[str, Any]) -> None:
    """The notary is told of another change, which passes; publish of the real one."""

    def build_answer(honest: Any, repository: Any, task: Any, bundle: bytes, patch: bytes) -> Any:
        answer, blobs = honest(repository, task, bundle, patch)
        if json.loads(bundle)["run_id"] != ALONE or "change" not in answer:
            return answer, blobs
        return _answer_harmless(repository, task, answer)

    plant("repository.bundle_reader:build_answer", build_answer)


def _answer_harmless(repository: Any, task: Any, answer: dict[str, Any]) -> Any:
    from gitlab_nightshift.repository.private_repository import compute_blob_id, write_blob
    from gitlab_nightshift.repository.tree_objects import write_checked_tree

    blob = compute_blob_id([HARMLESS], len(HARMLESS), len(task.base))
    write_blob(repository, HARMLESS, len(task.base))
    tree = write_checked_tree(repository, task.base, [("100644", blob, "shop.py")])
    row = (os.fsencode("shop.py").hex(), "M", "100644", blob, 1, 1)
    change = {"tree": tree, "files": [row], "settings": [], "sizes": [len(HARMLESS)]}
    return {**answer, "change": change}, [HARMLESS]


# --- publish's child --------------------------------------------------------------------------


def _lie_in_publish_child(_told: Mapping[str, Any]) -> None:
    """Publish is told of another change than the one that was seen, with a tree to match."""

    def build_answer(honest: Any, repository: Any, task: Any, bundle: bytes, patch: bytes) -> Any:
        answer, blobs = honest(repository, task, bundle, patch)
        if json.loads(bundle)["run_id"] == ALONE or "change" not in answer:
            return answer, blobs
        made, blobs = _answer_harmless(repository, task, answer)
        change = made["bundle"]["proposal"]["change"]
        change |= {"tree_id": made["change"]["tree"], "files": ["shop.py"]}
        change |= {"added": 1, "deleted": 1}
        return made, blobs

    plant("repository.bundle_reader:build_answer", build_answer)


# --- report -----------------------------------------------------------------------------------


def _lie_in_report(told: Mapping[str, Any]) -> None:
    """The results say that all is well, for whoever publishes them later."""

    def build_run_result(honest: Any, bundle: Any, *rest: Any) -> Any:
        temporary = Path(told["temporary"])
        record = _forge(json.loads(json.dumps(bundle, default=vars)))
        _spread(record, Path(told["checkout"]), temporary)
        result = honest(bundle, *rest)
        good = tuple(replace(each, level="pass", exit_status=0) for each in result.commands)
        return replace(result, commands=good)

    plant("stages.report.report_process:build_run_result", build_run_result)


LIES: dict[str, tuple[str, Callable[[Mapping[str, Any]], None]]] = {
    "work": ("stages.work.work_process", _lie_in_work),
    "bundle reader": ("repository.bundle_reader", _lie_in_reader),
    "publish's child": ("repository.bundle_reader", _lie_in_publish_child),
    "report": ("stages.report.report_process", _lie_in_report),
}


# --- the controls -----------------------------------------------------------------------------


def _believe_work() -> Planted:
    """No notary: the record is what the bundle says."""

    def run(_honest: Any, _self: Any, order: Any, _ask: Any) -> NotaryRecord:
        record: NotaryRecord = order.build_record()
        seen = tuple(NotarizedCommand(each, (NotarizedRun(0, 1.0),)) for each in record.asked)
        return replace(record, commands=seen, isolation="namespaces")

    return {"run.supervisor.notary_run:Notary.run": run}


def _bind_nothing() -> Planted:
    """The notary takes any tree that its reader reports."""
    seen: list[str] = []

    def write_change(honest: Any, repository: Any, rebuilt: Any, base: str) -> None:
        seen.append(rebuilt.tree)
        honest(repository, rebuilt, base)

    def rebuild(honest: Any, task: Any, *rest: Any) -> str:
        honest(replace(task, tree=""), *rest)
        return str(task.tree)

    def begin(honest: Any, self: Any, task: Any, _tree: str, *rest: Any) -> None:
        honest(self, task, seen[-1], *rest)

    places = (
        ("write_change", write_change),
        ("_rebuild_change", rebuild),
        ("_Trial.__init__", begin),
    )
    return {f"stages.work.notary_process:{name}": code for name, code in places}


def _compare_nothing() -> Planted:
    """Publish does not hold the record against the tree that it publishes."""
    return {"stages.publish.publish_stage:find_refusal": lambda *_, **__: None}


OFF: dict[str, Callable[[], Planted]] = {
    "the notary": _believe_work,
    "its tree": _bind_nothing,
    "the record's tree": _compare_nothing,
}
