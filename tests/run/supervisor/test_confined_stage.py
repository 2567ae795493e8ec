"""Work is started with a predicted confinement, and restarted if the plan requires another."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitlab_nightshift.run.supervisor.confined_stage import (
    IsolationSettings,
    open_confined_stage,
    predict_isolation,
    read_isolation,
)
from gitlab_nightshift.sandbox import confinement
from gitlab_nightshift.sandbox.confinement import (
    ConfinementChoice,
    ConfinementMode,
    ConfinementPaths,
)
from gitlab_nightshift.sandbox.launched_process import MOST_STARTS


class StageRecorder:
    """Records starts, inputs and ends of processes; ``answers`` are what they answer."""

    def __init__(self, folder: Path, answers: list[dict[str, Any]]) -> None:
        self.done, self._answers = list[Any](), answers
        git = str(folder / "checkout/.git")
        (folder / "checkout/.git").mkdir(parents=True, exist_ok=True)
        (folder / "state").mkdir(exist_ok=True)
        self.paths = ConfinementPaths((), (), (), git, str(folder / "state/git"), (), {})

    @contextlib.contextmanager
    def start(self, prefix: Sequence[str]) -> Iterator["StageRecorder"]:
        self.done.append(("start", prefix))
        yield self
        self.done.append("end")

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        confined = inputs["confined"]
        assert (
            inputs["moved"]
            == Path(self.paths.moved_git).exists()
            == (confined["mode"] == "landlock")
        )
        self.done.append((confined["mode"], confined["reason"], confined["writable"]))
        return self._answers.pop(0)


@pytest.fixture(autouse=True)
def _choose(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(
        isolation: str, _places: ConfinementPaths, *, namespace_failure: str = ""
    ) -> ConfinementChoice:
        if namespace_failure or isolation != "auto":
            return ConfinementChoice(ConfinementMode.LANDLOCK, namespace_failure)
        return ConfinementChoice(ConfinementMode.NAMESPACES, "", ("bwrap",))

    monkeypatch.setattr(confinement, "choose", choose)


def run_stage(
    recorder: StageRecorder,
    before: IsolationSettings,
    after: IsolationSettings,
    *,
    untouched: bool = True,
) -> list[Any]:
    context = {"settings": {"values": vars(after)}, "needed": after.opened}
    with open_confined_stage(recorder.paths, before, recorder.start, lambda: untouched) as stage:
        stage.run({"context": context})
    return recorder.done


AUTO = IsolationSettings("auto", None)
NOWHERE = ConfinementPaths((), (), (), "", "", (), {})


def test_a_stage_with_the_predicted_settings_is_not_restarted(tmp_path: Path) -> None:
    done = run_stage(StageRecorder(tmp_path, [{"status": 0}]), AUTO, AUTO)
    assert done == [("start", ("bwrap",)), ("namespaces", "", []), "end"]


def test_other_settings_than_predicted_restart_the_stage(tmp_path: Path) -> None:
    done = run_stage(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("uid", None))
    assert done == [("start", ("bwrap",)), "end", ("start", ()), ("landlock", "", []), "end"]


def test_unfit_namespaces_restart_the_stage_once(tmp_path: Path) -> None:
    recorder = StageRecorder(tmp_path, [{"unfit": "x" * 1000}, {"unfit": "again"}])
    done = run_stage(recorder, AUTO, AUTO)
    assert done[2:] == ["end", ("start", ()), ("landlock", "x" * 200, []), "end"]


def test_a_stage_that_an_agent_may_have_influenced_is_not_restarted(tmp_path: Path) -> None:
    done = run_stage(
        StageRecorder(tmp_path, [{"unfit": "weaker, please"}]), AUTO, AUTO, untouched=False
    )
    assert done[2:] == ["end"]


def test_a_lost_hidden_path_restarts_the_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ConfinementChoice(ConfinementMode.NAMESPACES, "", ("bwrap",), (str(tmp_path / "gone"),))
    monkeypatch.setattr(confinement, "choose", lambda *_given, **_more: gone)
    done = run_stage(StageRecorder(tmp_path, [{}, {"status": 0}]), AUTO, AUTO)
    once: list[Any] = [("start", ("bwrap",)), ("namespaces", "", []), "end"]
    assert done == [*once, *once]
    assert run_stage(StageRecorder(tmp_path, [{}]), AUTO, AUTO, untouched=False) == once
    assert run_stage(StageRecorder(tmp_path, [{}] * MOST_STARTS), AUTO, AUTO) == once * MOST_STARTS


def test_the_folder_of_a_recording_is_writable(tmp_path: Path) -> None:
    folder = tmp_path / "not/there/yet"
    done = run_stage(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("auto", str(folder)))
    assert done[-2] == ("namespaces", "", [str(folder)])
    assert folder.is_dir()
    inside = tmp_path / "checkout/recording"
    done = run_stage(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("auto", str(inside)))
    assert done[-2] == ("namespaces", "", [])
    assert not inside.exists()


def test_needed_paths_in_the_hidden_home_restart_the_stage(tmp_path: Path) -> None:
    """Unless they are visible already."""
    for name in ("home/tools/bin", "home/data"):
        (tmp_path / name).mkdir(parents=True)
    recorder, home = StageRecorder(tmp_path, [{}] * 3), str(tmp_path / "home")
    recorder.paths = replace(recorder.paths, home=home, opened=(f"{home}/tools",))
    once: list[Any] = [("start", ("bwrap",)), ("namespaces", "", []), "end"]
    for needed, starts in ((f"{home}/tools/bin", 1), (f"{home}/data", 2), ("/usr", 1)):
        recorder.done.clear()
        done = run_stage(recorder, AUTO, IsolationSettings("auto", None, (needed,)))
        assert done == [*[("start", ("bwrap",)), "end"] * (starts - 1), *once]


def test_settings_are_predicted_from_variables_and_options() -> None:
    values = {"isolation": "auto", "record_dir": None}
    isolation = read_isolation({"settings": {"values": values}, "needed": []}, NOWHERE)
    assert predict_isolation({}, {}) == AUTO == isolation
    env = {"NIGHTSHIFT_ISOLATION": "uid", "NIGHTSHIFT_RECORD_DIR": "/a"}
    assert predict_isolation(env, {}) == IsolationSettings("uid", "/a")
    assert predict_isolation(env, {"isolation": "none"}) == IsolationSettings("none", "/a")
