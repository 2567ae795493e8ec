"""A report that an agent has taken over: it dies, hangs, floods or lies, and the run's result is
what the supervisor knows all the same."""

from collections.abc import Iterator

import pytest

from tests.support.shop import GOOD
from tests.support.world import Done, World, world

TAKEN = """
import dataclasses, os, signal, sys, time
from gitlab_nightshift.records.events import Note, RunEnded
from gitlab_nightshift.wire.channel import OutputChannel
from gitlab_nightshift.stages.report import report_process
from gitlab_nightshift.records.storage import to_json
from gitlab_nightshift.run.supervisor import supervised_run
from tests.support.plant import plant

supervised_run.REPORT = dataclasses.replace(supervised_run.REPORT, wall_s={wall_s})
build = report_process.build_run_result

def taken(honest, inputs):
    outlet, made = OutputChannel(os.dup(inputs["outlet"])), []
    report_process.build_run_result = lambda *given: made.append(build(*given)) or made[0]
    status = honest(inputs)
    other = dataclasses.replace(made[0], mr_url="https://evil.example", reason="evil")
{code}
    return status

plant("stages.report.report_process:_run_report", taken)
"""
PAGE = "<!DOCTYPE html>\n<html><script>alert(1)</script></html>"
WAYS = {
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)",
    "floods its output": "while True: os.write(2, b'x'); sys.__stdout__.write('x' * 65536)",
    "floods the redactor": "while True: outlet(Note('x' * 65536))",
    "tells another status": "return 99",
    "tells no status": "return 'none'",
    "changes the result": 'outlet.send_record("result.json", to_json(other).encode())',
    "changes the variables": 'outlet.send_record("nightshift.env", b"NIGHT_OUTCOME=evil\\n")',
    "writes a script": f'outlet.send_record("report.html", {PAGE.encode()!r})',
    "tells another end": "outlet(RunEnded(other))",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), GOOD) as made:
        yield made


TRUSTING = """
from gitlab_nightshift.stages.report import page

supervised_run.ensure_result = lambda *_: True
page.read_beginning = lambda: ""
"""


def run(shop: World, code: str, wall_s: float = 60.0, more: str = "") -> Done:
    lines = "\n".join(f"    {line}" for line in code.strip("\n").splitlines())
    shop.patch = TAKEN.replace("{code}", lines).replace("{wall_s}", str(wall_s)) + more
    return shop.nightshift("run", NIGHTSHIFT_ENABLED="false")


@pytest.mark.parametrize("way", WAYS)
def test_whatever_it_does_the_result_is_that_of_the_supervisor(shop: World, way: str) -> None:
    done = run(shop, WAYS[way], 2.0 if way in ("hangs", "floods its output") else 60.0)
    told = shop.products()
    assert (done.exit_status, shop.result["outcome"]) == (0, "SKIPPED"), done
    assert b"NIGHT_OUTCOME=SKIPPED" in told["nightshift.env"]
    assert b"evil" not in b"".join(told.values())
    assert b"<script" not in told["report.html"]
    assert "SKIPPED" in done.last_line


def test_who_believes_it_has_what_it_says(shop: World) -> None:
    """The control."""
    run(shop, WAYS["changes the result"], more=TRUSTING)
    assert shop.result["mr_url"] == "https://evil.example"
    run(shop, WAYS["changes the variables"], more=TRUSTING)
    assert shop.products()["nightshift.env"] == b"NIGHT_OUTCOME=evil\n"
    run(shop, WAYS["writes a script"], more=TRUSTING)
    assert b"<script" in shop.products()["report.html"]


def test_what_it_has_written_in_truth_is_left_as_it_is(shop: World) -> None:
    done = run(shop, "pass")
    assert "report" not in done.log
    assert shop.result["outcome"] == "SKIPPED"
