"""The same from Python, in a process of its own as an orchestrator is."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gitlab_nightshift import api
from gitlab_nightshift.errors import NightshiftError
from tests.support.agent import hang, plays
from tests.support.delegation import QUICK, TASK, delegations
from tests.support.trees import processes_in, wait_for
from tests.support.world import ROOT

CALL = """\
import json, os, sys
from gitlab_nightshift import delegate
payload, env = json.load(sys.stdin)
os.environ.clear()
os.environ["NIGHTSHIFT_PROFILE"] = "nonsense"
result = delegate(payload, env)
assert dict(os.environ) == {"NIGHTSHIFT_PROFILE": "nonsense"}
print(json.dumps(result))
"""
LIGHT = """\
import sys, gitlab_nightshift
assert callable(gitlab_nightshift.delegate)
heavy = {"pydantic", "gitlab", "aiohttp", "yaml", "subprocess", "argparse", "dataclasses"}
print(sorted(heavy & set(sys.modules)))
"""


def python(code: str, cwd: Path, given: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_import_is_light(tmp_path: Path) -> None:
    assert python(LIGHT, tmp_path).stdout == "[]\n"


def test_only_the_environment_that_is_given_counts(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        repo = {"type": "local_path", "value": str(context.repository)}
        given = json.dumps([{"task_prompt": TASK, "repo": repo}, context.env])
        done = python(CALL, context.context, given)
        assert (done.returncode, done.stderr) == (0, ""), done
        result = json.loads(done.stdout)
        assert (result["ok"], result["git"]["branch"]) == (True, context.branches()[-1])


def test_what_is_wrong_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitlab_nightshift import delegate

    monkeypatch.setattr(api, "forbid_inspection", lambda: True)  # it would stay so
    for payload in ({}, {"task_prompt": {1, 2}}, {"task_prompt": b"x"}):
        result = delegate(payload, {"TMPDIR": str(tmp_path)})
        assert result["diagnostics"]["error_code"] == "E_CONFIG"
        assert result["error"].startswith("payload: ")


def test_the_child_ends_with_its_caller(tmp_path: Path) -> None:
    """Killed without a word: its child puts back what is to be put back, and nobody works on."""
    with delegations(tmp_path, plays(QUICK, {"implement": [hang()]})) as context:
        repo = {"type": "local_path", "value": str(context.repository)}
        given = context.folder / "agent/given"
        given.write_text(json.dumps([{"task_prompt": TASK, "repo": repo}, context.env]))
        with given.open() as stdin:
            caller = subprocess.Popen(
                [sys.executable, "-c", CALL],
                cwd=context.context,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
                stdin=stdin,
                stdout=subprocess.DEVNULL,
            )
        wait_for(lambda: context.agent.hanging, "the agent works")
        caller.kill()
        caller.wait()
        wait_for(lambda: not processes_in(context.folder), "all are gone")
        wait_for(lambda: not list((context.folder / "tmp").iterdir()), "all is put back")
        context.assert_untouched()


def test_on_another_system_it_says_where_agents_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    results = [
        api.delegate({"task_prompt": TASK}, {}),
        api.as_json(api.delegate_file("-", io.BytesIO(b"{}"), {}, io.StringIO())),
    ]
    assert [each["ok"] for each in results] == [False, False]
    for each in results:
        assert each["diagnostics"]["error_code"] == "E_CONFIG"
        assert "agents run on Linux only" in json.dumps(each)
    with pytest.raises(NightshiftError, match="agents run on Linux only"):
        api.show_delegation("1", {}, cancel=False)
