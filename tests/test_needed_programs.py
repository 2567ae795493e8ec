"""What becomes of a test whose program this machine does not have."""

from pathlib import Path

import pytest

from tests.support.programs import NEEDED, find_lack, need_program

PROXY = "#!/bin/sh\necho 'error: rustup could not choose a version of cargo to run' >&2\nexit 1\n"


@pytest.fixture(autouse=True)
def _only_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a version manager puts on PATH, and no toolchain behind it."""
    (tmp_path / "cargo").write_text(PROXY)
    (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(NEEDED, raising=False)
    monkeypatch.setattr("tests.support.programs.find_lack", find_lack.__wrapped__)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cargo", "cargo does not work here: error: rustup could not choose a version of cargo"),
        ("no-such-program", "no-such-program is not installed"),
    ],
)
def test_it_is_skipped_by_name(name: str, why: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=why):
        need_program(name)


def test_it_fails_where_the_program_has_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NEEDED, "rspec cargo")
    with pytest.raises(pytest.fail.Exception, match="cargo does not work here"):
        need_program("cargo")


def test_what_starts_is_used() -> None:
    need_program("env")
