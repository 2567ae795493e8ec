"""Work is started for the confinement that it needs, before and after the plan says which."""

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
        self.places = ConfinementPaths((), (), (), git, str(folder / "state/git"), (), {})

    @contextlib.contextmanager
    def start(self, prefix: Sequence[str]) -> Iterator["StageRecorder"]:
        self.done.append(("start", prefix))
        yield self
        self.done.append("end")

    def run(self, told: Mapping[str, Any]) -> dict[str, Any]:
        confined = told["confined"]
        assert (
            told["moved"]
            == Path(self.places.moved_git).exists()
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


def worked(
    recorder: StageRecorder,
    before: IsolationSettings,
    after: IsolationSettings,
    *,
    untouched: bool = True,
) -> list[Any]:
    place = {"settings": {"values": vars(after)}, "needed": after.opened}
    with open_confined_stage(recorder.places, before, recorder.start, lambda: untouched) as stage:
        stage.run({"context": place})
    return recorder.done


AUTO = IsolationSettings("auto", None)
NOWHERE = ConfinementPaths((), (), (), "", "", (), {})


def test_the_process_that_has_loaded_is_used(tmp_path: Path) -> None:
    done = worked(StageRecorder(tmp_path, [{"status": 0}]), AUTO, AUTO)
    assert done == [("start", ("bwrap",)), ("namespaces", "", []), "end"]


def test_another_setting_than_expected_starts_another(tmp_path: Path) -> None:
    done = worked(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("uid", None))
    assert done == [("start", ("bwrap",)), "end", ("start", ()), ("landlock", "", []), "end"]


def test_where_no_namespaces_fit_it_starts_again_once(tmp_path: Path) -> None:
    recorder = StageRecorder(tmp_path, [{"unfit": "x" * 1000}, {"unfit": "again"}])
    done = worked(recorder, AUTO, AUTO)
    assert done[2:] == ["end", ("start", ()), ("landlock", "x" * 200, []), "end"]


def test_what_an_agent_may_have_touched_is_not_heard(tmp_path: Path) -> None:
    done = worked(
        StageRecorder(tmp_path, [{"unfit": "weaker, please"}]), AUTO, AUTO, untouched=False
    )
    assert done[2:] == ["end"]


def test_what_was_to_be_hidden_and_has_gone_starts_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ConfinementChoice(ConfinementMode.NAMESPACES, "", ("bwrap",), (str(tmp_path / "gone"),))
    monkeypatch.setattr(confinement, "choose", lambda *_given, **_more: gone)
    done = worked(StageRecorder(tmp_path, [{}, {"status": 0}]), AUTO, AUTO)
    once: list[Any] = [("start", ("bwrap",)), ("namespaces", "", []), "end"]
    assert done == [*once, *once]
    assert worked(StageRecorder(tmp_path, [{}]), AUTO, AUTO, untouched=False) == once
    assert worked(StageRecorder(tmp_path, [{}] * MOST_STARTS), AUTO, AUTO) == once * MOST_STARTS


def test_the_folder_of_a_recording_may_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "not/there/yet"
    done = worked(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("auto", str(folder)))
    assert done[-2] == ("namespaces", "", [str(folder)])
    assert folder.is_dir()
    inside = tmp_path / "checkout/recording"
    done = worked(StageRecorder(tmp_path, [{}]), AUTO, IsolationSettings("auto", str(inside)))
    assert done[-2] == ("namespaces", "", [])
    assert not inside.exists()


def test_what_settings_need_of_home_starts_another(tmp_path: Path) -> None:
    """Unless it was seen anyway; the folder of what is opened is not."""
    for name in ("home/tools/bin", "home/data"):
        (tmp_path / name).mkdir(parents=True)
    recorder, home = StageRecorder(tmp_path, [{}] * 3), str(tmp_path / "home")
    recorder.places = replace(recorder.places, home=home, opened=(f"{home}/tools",))
    once: list[Any] = [("start", ("bwrap",)), ("namespaces", "", []), "end"]
    for needed, starts in ((f"{home}/tools/bin", 1), (f"{home}/data", 2), ("/usr", 1)):
        recorder.done.clear()
        done = worked(recorder, AUTO, IsolationSettings("auto", None, (needed,)))
        assert done == [*[("start", ("bwrap",)), "end"] * (starts - 1), *once]


def test_variables_tell_what_the_plan_will_say() -> None:
    values = {"isolation": "auto", "record_dir": None}
    said = read_isolation({"settings": {"values": values}, "needed": []}, NOWHERE)
    assert predict_isolation({}, {}) == AUTO == said
    env = {"NIGHTSHIFT_ISOLATION": "uid", "NIGHTSHIFT_RECORD_DIR": "/a"}
    assert predict_isolation(env, {}) == IsolationSettings("uid", "/a")
    assert predict_isolation(env, {"isolation": "none"}) == IsolationSettings("none", "/a")
