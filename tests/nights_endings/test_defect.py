"""A defect of this program becomes a result and the last line, like any other failure."""

from pathlib import Path

from tests.support.shop import GOOD
from tests.support.tables import each
from tests.support.world import BOT_TOKEN, world

DEFECTS = [
    ("OSError(28, 'No space left on device')", "E_CONFIG", "no space left on the disk of"),
    (f"ZeroDivisionError('token {BOT_TOKEN}')", "E_INTERNAL", "a defect of nightshift: Zero"),
]
FAILING = """
from gitlab_nightshift.run import planning

def fail(*_):
    raise {error}

planning.make_plan = fail
"""


def test_a_defect_between_the_stages_leaves_results_and_a_last_line(tmp_path: Path) -> None:
    with world(tmp_path) as shop:

        @each(("error", "code", "reason"), DEFECTS)
        def check(error: str, code: str, reason: str) -> None:
            shop.patch = FAILING.format(error=error)
            done = shop.nightshift("run")
            assert shop.result["error_code"] == code
            assert shop.result["reason"].startswith(reason)
            assert f"✘ FAILED · {code} · {reason}" in done.last_line
            traceback = shop.products().get("logs/traceback.txt", b"")
            assert (b"ZeroDivisionError" in traceback) == (code == "E_INTERNAL")
            assert BOT_TOKEN.encode() not in traceback

        check()
        shop.assert_restored()


REFUSED = """
from gitlab_nightshift.stages.work import work_stage

work_stage.encode_bundle = lambda bundle: b'{"no": "bundle"}'
"""


def test_a_result_that_is_refused_is_not_told_as_a_killed_process(tmp_path: Path) -> None:
    with world(tmp_path, GOOD) as shop:
        shop.patch = REFUSED
        shop.nightshift("run")
        assert shop.result["error_code"] == "E_INTERNAL"
        assert shop.result["reason"].startswith("the process of work left no result that can be")
        shop.assert_restored()
