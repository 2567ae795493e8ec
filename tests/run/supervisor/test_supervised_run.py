"""What the supervisor imports, and how it forwards signals."""

import signal
import subprocess
import sys
from pathlib import Path

import gitlab_nightshift

PACKAGE = Path(gitlab_nightshift.__file__).parents[1]


def test_the_supervisor_imports_only_the_standard_library() -> None:
    """It has every secret. So do the small processes."""
    code = f"""\
import importlib, sys
sys.path.append({str(PACKAGE)!r})
for name in ("stages.report.report_process", "run.redactor_process", "gateway.gateway_process"):
    importlib.import_module(f"gitlab_nightshift.{{name}}")
from gitlab_nightshift.cli import run
print(run(["run"], {{}}))
print(sorted({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names))
"""
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout == "2\n['__main__', 'gitlab_nightshift']\n"
    assert "is not in a git checkout" in done.stderr


TWO_SIGNALS = """\
import os, signal
from gitlab_nightshift.run.supervisor.stop_signals import Signals

class Stage:
    got = []
    def signal(self, number):
        self.got.append(int(number))
    def kill(self):
        pass

with Signals() as signals:
    first, second = Stage(), Stage()
    first.got, second.got = [], []
    with signals.forward_to(first):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    with signals.forward_to(second):
        pass
    print(first.got, second.got, signals.stopped.code)
"""


def test_the_first_signal_is_forwarded_once_to_each_stage() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_SIGNALS], capture_output=True, text=True, check=False
    )
    number = int(signal.SIGTERM)
    assert (done.stdout, done.stderr) == (f"[{number}] [{number}] E_TERMINATED\n", "")


LATE = """\
import threading
from gitlab_nightshift.run.supervisor import stop_signals

class Stage:
    got, killed = [], threading.Event()
    def signal(self, number):
        self.got.append(int(number))
    def kill(self):
        self.got.append("killed")
        self.killed.set()

stop_signals.GRACE_S = 0.0
with stop_signals.Signals() as made, made.stop_after(None, "never"):
    with made.stop_after(0.0, "too late"), made.forward_to(Stage()):
        assert Stage.killed.wait(60)
    print(Stage.got, made.stopped.code, made.stopped)
"""


def test_a_stage_that_ignores_its_deadline_and_a_signal_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    expected = f"[{int(signal.SIGTERM)}, 'killed'] E_TIMEOUT too late\n"
    assert (done.stdout, done.stderr) == (expected, "")
