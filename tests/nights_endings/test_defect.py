"""What goes wrong in this program itself is a result and the last line, as anything else."""

import errno
from pathlib import Path

import pytest

from gitlab_nightshift import stages
from gitlab_nightshift.session import Call, opened
from tests.support.tables import each
from tests.support.world import BOT_TOKEN, World, world

DEFECTS = [
    (OSError(errno.ENOSPC, "No space left on device"), "E_CONFIG", "no space left on the disk of"),
    (ZeroDivisionError(f"token {BOT_TOKEN}"), "E_INTERNAL", "a defect of nightshift: Zero"),
]


def run(shop: World) -> str:
    """A run in this process; its error code."""
    with opened(Call(shop.env, shop.checkout, None, {}, colour=False)) as session:
        return stages.run(session).error_code


def test_a_defect_between_the_stages_leaves_results_and_a_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path) as shop:

        @each(("error", "code", "reason"), DEFECTS)
        def check(error: Exception, code: str, reason: str) -> None:
            def fail(*_: object) -> None:
                raise error

            monkeypatch.setattr(stages, "make_plan", fail)
            assert run(shop) == code
            assert shop.result["reason"].startswith(reason)
            last = capsys.readouterr().out.splitlines()[-1]
            assert f"✘ FAILED · {code} · {reason}" in last
            traceback = shop.products().get("logs/traceback.txt", b"")
            assert (b"ZeroDivisionError" in traceback) == (code == "E_INTERNAL")
            assert BOT_TOKEN.encode() not in traceback

        check()
        shop.assert_put_back()
