"""How long ``nightshift check`` takes: ``python benchmarks/check.py [FILES]``.

A repository of 50,000 files and a change of about 100 lines in seven of them, as a commit and as a
working tree. Seconds: of the judgement alone (best and median of five), and of the whole command.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gitlab_nightshift.commands.change_check import CheckRequest, check

ROUNDS = 5
_GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0")


def main(count: int) -> None:
    """Make the repository and print a table."""
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        top = Path(folder) / "shop"
        _repository(top, count)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder}
        print(f"{count} files, {_change(top)} changed lines")
        _row("working tree", lambda: check(CheckRequest(top, env)))
        _row("working tree, command", lambda: _command(top))
        _git(top, "add", "-A")
        _git(top, "commit", "-q", "-m", "change")
        _row("commit", lambda: check(CheckRequest(top, env, "HEAD")))
        _row("commit, command", lambda: _command(top, "HEAD"))
        _row("python -c pass", lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))


def _row(name: str, run: Callable[[], object]) -> None:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(f"{name:24} best {min(times):.3f} s  median {statistics.median(times):.3f} s")


def _command(top: Path, *args: str) -> None:
    argv = [sys.executable, "-m", "gitlab_nightshift", "check", *args]
    subprocess.run(argv, cwd=top, check=False, capture_output=True)


def _git(top: Path, *args: str) -> None:
    subprocess.run([*_GIT, *args], cwd=top, check=True)


def _repository(top: Path, count: int) -> None:
    for n in range(count):
        path = top / f"src/area{n // 1000}/part{n // 50}/module_{n}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_module(n))
    (top / "tests").mkdir()
    (top / "tests/test_shop.py").write_text(_TESTS)
    (top / "README.md").write_text("# Shop\n\nSee [the code](src/area0).\n")
    (top / "pyproject.toml").write_text(
        "[tool.ruff]\nline-length = 100\n\n[tool.mypy]\nstrict = true\n"
    )
    _git(top, "init", "-q")
    _git(top, "add", "-A")
    _git(top, "commit", "-q", "-m", "first")


def _module(n: int) -> str:
    functions = (
        f"def price_{k}(amount: int, rate: float = {n}.5) -> float:\n"
        f'    """The price of {k}."""\n    if amount < 0:\n        raise ValueError(amount)\n'
        f"    return amount * rate + {k}\n"
        for k in range(6)
    )
    return "\n\n".join(functions)


_TESTS = "from src.area0.part0 import module_0\n\n\n" + "\n\n".join(
    f"def test_price_{k}() -> None:\n    assert module_0.price_{k}(2, 1.0) == 2 + {k}\n"
    for k in range(20)
)


def _change(top: Path) -> int:
    """Change seven files; the number of changed lines."""
    for n in (0, 7_00, 14_00, 21_00):
        path = next(top.glob(f"src/*/*/module_{n}.py"), None)
        if path:
            path.write_text(path.read_text().replace("amount * rate", "rate * amount"))
    tests = top / "tests/test_shop.py"
    more = "".join(
        f"\n\ndef test_negative_{k}() -> None:\n    with pytest.raises(ValueError):\n"
        f"        module_0.price_{k}(-1)\n"
        for k in range(6)
    )
    tests.write_text("import pytest\n" + tests.read_text() + more)
    (top / "README.md").write_text("# Shop\n\nSee [the code](src/area0) and [tests](tests).\n")
    (top / "pyproject.toml").write_text(
        "[tool.ruff]\nline-length = 90\n\n[tool.mypy]\nstrict = true\n"
    )
    shown = subprocess.run(
        [*_GIT, "diff", "--numstat"], cwd=top, check=True, capture_output=True, text=True
    )
    return sum(int(word) for row in shown.stdout.splitlines() for word in row.split()[:2])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
