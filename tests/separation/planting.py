"""Code planted in the processes of a real run, as an exploit of them would bring it.

A folder's ``entry.py`` takes the place of the program's own entry file in all of its processes: it
plants the code where the configuration says, and goes on as that does. Nothing of it is in the
product. Standard library only.
"""

import contextlib
import functools
import gc
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gitlab_nightshift import sealed_entry, sealed_start
from tests.separation import attempts
from tests.support.plant import PACKAGE, plant

ROOT = Path(__file__).parents[2]
ENTRY = """import sys

sys.path.append({root!r})
from tests.separation import planting

sys.exit(planting.enter())
"""
START = """import sys

sys.path.insert(0, {root!r})
from pathlib import Path
from gitlab_nightshift import cli, sealed_start

sealed_start.ENTRY = Path({entry!r})
sys.argv[0] = "nightshift"
cli.main()
"""
WRAPPER = """#!/bin/sh
shift 3
exec {place} sh -c '"$@"; exit $?' sh {python} {start} "$@"
"""
"""For ``python -P -m gitlab_nightshift ...``: the job's shell, which stays."""
WHERE = {
    "work": ("stages.work.work_process", "wire.channel:OutputChannel.__call__", "BeadEnded"),
    "notary": (
        "stages.work.notary_process",
        "wire.channel:OutputChannel.__call__",
        "CommandEnded",
    ),
    "plan": ("run.plan_process", "run.planning:make_plan", ""),
    "gateway": ("gateway.gateway_process", "gateway.control_socket:ControlServer._open_bead", ""),
    "redactor": (
        "run.redactor_process",
        "run.redactor_process:EventDispatcher.__call__",
        "BeadEnded",
    ),
    "publish": ("run.publish_process", "run.publish_process:publish", ""),
    "bundle reader": ("repository.bundle_reader", "repository.bundle_reader:build_answer", ""),
    "report": (
        "stages.report.report_process",
        "stages.report.report_process:build_run_result",
        "",
    ),
    "notify": (
        "stages.report.notify_process",
        "stages.report.notify_process:build_notification",
        "",
    ),
    "addresses": ("run.addresses_process", "run.addresses_process:_read_config", ""),
    "prepare": ("run.prepare_process", "run.prepare_process:open_source", ""),
    "finish": ("run.finish_process", "run.finish_process:_package", ""),
    "address check": (
        "stages.report.notify_process",
        "stages.report.notify_process:describe_unknown_addresses",
        "",
    ),
    "nightshift plan": ("", "run.planning:plan_for_later_job", ""),
    "nightshift publish": ("", "run.publishing:publish_existing", ""),
    "nightshift check": ("", "commands.change_check:check", ""),
    "nightshift patch": ("", "commands.block_edits:_PatchLoop.request_proposal", ""),
}
"""Where each of them tries it: a module ("": a command), a function before whose first call, and
the type of its argument. In work that is when an agent's first process has ended, in the notary
when the first command has."""
SWITCHES = ("unfit", "unlatched")
CHILDREN = {"plan": "address check", "publish": "bundle reader", "finish": "bundle reader"}
"""What a process that is kept to its row starts."""
LAST = "wire.channel:OutputChannel.send_record"
"""Where work is about to hand over what it has made, and to end."""
LOG, NOTARY_LOG = "planted.json", "planted-notary.json"


def prepare(
    folder: Path,
    python: Path,
    places: attempts.Places,
    *,
    place: str = "",
    open_: bool = False,
    only: Collection[str] = WHERE,
    switches: Mapping[str, bool] | None = None,
    lies: Mapping[str, Any] | None = None,
) -> Path:
    """A program in an empty folder that stands for ``python``; ``place`` starts it there.

    ``open_``: nothing keeps others of the same user out of our processes (the control). ``only``
    these processes try anything. ``switches``: ``unfit``, work asks to be started again once agents
    have run, instead of trying anything; ``unlatched``, and that is heard (the control). ``lies``
    is what ``lying.py`` is told, where nothing else is tried.
    """
    made, start, wrapper = folder / "entry.py", folder / "start.py", folder / "python"
    made.write_text(ENTRY.format(root=str(ROOT)))
    start.write_text(START.format(root=str(ROOT), entry=str(made)))
    told = {**asdict(places), "entry": str(made)}
    known = {"places": told, "open": open_, "only": [*only], "lies": lies}
    whole = {**known, **dict.fromkeys(SWITCHES, False), **(switches or {})}
    (folder / "plant.json").write_text(json.dumps(whole))
    wrapper.write_text(WRAPPER.format(place=place, python=python, start=start))
    wrapper.chmod(0o755)
    (folder / "found").mkdir()
    (folder / "found").chmod(0o777)
    return wrapper


def read_found(folder: Path, process: str) -> dict[str, str]:
    """What the code in a trusted process has got, by the attempt."""
    found: dict[str, str] = json.loads((folder / "found" / process).read_text())
    return found


def count_alive(folder: Path) -> int:
    """How many processes of a run are alive: of those that stay the command line stays, too."""
    found = 0
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += str(folder / "entry.py").encode() in command.read_bytes()
    return found


def really(got: str) -> str:
    """What was got, except files that only the process itself can see."""
    return "\n".join(line for line in got.splitlines() if not _is_other(line))


def _is_other(line: str) -> bool:
    path, _, _ = line.rpartition(" ")
    return path.startswith("/") and attempts.id_of(path) != line


# --- in the processes -----------------------------------------------------------------------------


def enter() -> int:
    """What ``entry.py`` does, with the code in it."""
    own = Path(sys.argv[0])
    sealed_start.ENTRY = own
    told = json.loads((own.parent / "plant.json").read_text())
    more = [str(own.parent), str(ROOT / "tests")]
    plant("sandbox.process_places:list_installation", lambda listed: [*listed(), *more])
    if told["open"]:
        _open_doors()
    if told["unlatched"]:
        plant("run.supervisor.stage_calls:Latch.is_open", lambda *_: True)
    for name in ("run_stage", "run_command"):
        plant(f"sealed_entry:{name}", functools.partial(_run_planted, own.parent, told))
    return sealed_entry.enter()


def _open_doors() -> None:
    """Switch off what keeps other processes of the same user out, and what confines work."""

    def control(real: Callable[[int, int], None], option: int, value: int) -> None:
        if option != sealed_entry.PR_SET_DUMPABLE:
            real(option, value)

    plant("sealed_entry:_call_prctl", control)
    plant("system.processes:forbid_inspection", lambda _: False)
    plant("sandbox.privilege_drop:restrict_to", lambda *_: None)


def _run_planted(
    folder: Path, told: Mapping[str, Any], real: Callable[[dict[str, Any]], int], data: Any
) -> int:
    if lies := told["lies"]:
        from tests.separation import lying

        lying.lie(str(data.get("stage")).removeprefix(f"{PACKAGE}."), lies)
        return real(data)
    places = attempts.Places(**told["places"])
    for process, (module, place, kind) in WHERE.items():
        if process in told["only"] and _runs(data, process, module):
            log = NOTARY_LOG if process == "notary" else LOG
            code: Callable[..., None] = functools.partial(_try_all, places, log)
            if process == "work" and told["unfit"]:
                code = _ask_for_another_start
            elif process == "work" and not told["open"]:
                _plant_first(LAST, "", lambda *_: attempts.mislead(places))
            if process not in ("work", "notary"):
                report = _open_report(folder, process, data)
                code = functools.partial(_try_own, report, look_around(places))
            _plant_first(place, kind, code)
    return real(data)


def _runs(data: Mapping[str, Any], process: str, module: str) -> bool:
    if "stage" in data:
        return bool(data["stage"] == f"{PACKAGE}.{module}")
    return "arguments" in data and process == f"nightshift {data['arguments'][0]}"


def _open_report(folder: Path, process: str, data: Mapping[str, Any]) -> Any:
    """While it still can be: what these start is confined as they are, so it gets an open one."""
    if child := CHILDREN.get(process):
        given = (folder / "found" / child).open("a")

        def start_with(
            start: Any, row: Any, data: Any, env: Any, fds: Any = (), *more: Any, **named: Any
        ) -> Any:
            found, passed = {**data, "found": given.fileno()}, (*fds, given.fileno())
            return start(row, found, env, passed, *more, **named)

        plant("sandbox.stage_process:start_stage", start_with)
    if "found" in data:
        return os.fdopen(data["found"], "a")
    try:
        return (folder / "found" / process).open("a")
    except OSError:  # within the notary's own confinement
        return Path(os.devnull).open("a")


def _plant_first(place: str, kind: str, code: Callable[..., None]) -> None:
    """Have it run before the first call with such an argument."""
    left = [code]

    def run(honest: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if left and (not kind or any(type(each).__name__ == kind for each in args)):
            left.pop()(*args)
        return honest(*args, **kwargs)

    plant(place, run)


def _ask_for_another_start(*_: Any) -> None:
    """By the answer of a process that has found no sandbox to work."""
    writers = [each for each in gc.get_objects() if isinstance(each, io.BufferedWriter)]
    [answers] = [each for each in writers if each.fileno() > 2]
    answers.write(json.dumps({"unfit": "weaker, please"}).encode())
    answers.flush()
    os._exit(0)


def _try_own(report: Any, places: attempts.Places, *_: Any) -> None:
    with report:
        json.dump(attempts.everything(places), report)


def _try_all(places: attempts.Places, log: str, outlet: Any, *_: Any) -> None:
    """Report what it got by the one channel that it is sure to have, as a log without secrets."""
    outlet.send_text(log, json.dumps(attempts.everything(_with_private(places))))


def look_around(places: attempts.Places) -> attempts.Places:
    """The places with all that may be found as long as nothing is given up."""
    return replace(_with_private(places), groups=attempts.find_groups(places))


def _with_private(places: attempts.Places) -> attempts.Places:
    folders = list(Path(places.temporary).glob("nightshift-*"))
    return replace(places, private=str(folders[0]) if folders else "")
